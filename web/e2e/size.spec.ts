// What a browser has to fetch before the first lines can be seen.

import { expect, test } from './common';

/**
 * Scripts and styles of the first view, unpacked. What is beside the lines is fetched after them.
 */
const FIRST_BYTES_MAX = 250 * 1024;

test('the first view needs less than 250 KB of scripts and styles', async ({ request }) => {
  const html = await (await request.get('/')).text();
  const files = [...html.matchAll(/(?:href|src)="(\/assets\/[^"]+\.(?:js|css))"/g)].map(([, file]) => file as string);
  expect(files.length).toBeGreaterThan(1);
  let bytes = 0;
  for (const file of files) bytes += (await (await request.get(file)).body()).length;
  expect(bytes, `${files.join(' ')}`).toBeLessThan(FIRST_BYTES_MAX);
});

test('parts that are fetched later are there before they are needed, also without a server', async ({ page }) => {
  await page.goto('/?range=1h');
  await expect(page.getByTestId('line-row').first()).toBeVisible();
  await expect.poll(() => page.evaluate(() => performance.getEntriesByType('resource').some(({ name }) => /StatusView-.*\.js/.test(name)))).toBe(true);
  await page.route('**/assets/**', (route) => route.abort());
  await page.getByTestId('view-status').click();
  await expect(page.getByTestId('status')).toBeVisible();
});
