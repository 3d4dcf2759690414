// Short links: the server keeps a view, and the link opens it elsewhere.

import { expect, settled, test, watch } from './common';

test.beforeEach(({ page }) => watch(page));

test('a short link opens the view that it was made of', async ({ page, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto(`/?query=${encodeURIComponent('_level:=error')}&range=30m`);
  await settled(page);
  await page.getByTestId('short-link').click();
  await expect(page.getByTestId('short-link')).toHaveText('Copied');
  const link = await page.evaluate(() => navigator.clipboard.readText());
  expect(link).toMatch(/\/\?l=[\w-]{12}$/);
  await page.goto(link);
  await expect(page).toHaveURL(/query=_level%3A%3Derror&from=/);
  await settled(page);
  await page.goto('/?l=AAAAAAAAAAAA');
  await expect(page.getByTestId('link-error')).toContainText('there is no link');
});
