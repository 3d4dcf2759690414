// What the watch of the server found, above the summary.

import { expect, expectAccessible, expectQuery, settled, test } from './common';

const MINUTE_MS = 60_000;

function found(id: number, sinceMinutes: number, more: object): object {
  return {
    id,
    kind: 'silent',
    field: 'service',
    value: 'shop',
    filter: '"service":="shop"',
    since: new Date(Date.now() - sinceMinutes * MINUTE_MS).toISOString(),
    until: null,
    seen: 0,
    expected: 42.5,
    interval_s: 60,
    history_s: 7_200,
    reason: 'no lines for 12m, where about 42.5 a minute are usual',
    part_of: null,
    ...more,
  };
}

test('what the server watches stands above the summary and leads to its lines', async ({ page }) => {
  const findings = [
    found(1, 12, {}),
    found(2, 12, { field: 'hostname', value: 'web-1', filter: '"hostname":="web-1"', part_of: 1 }),
    found(3, 30, { kind: 'new', field: 'version', value: '2.0', filter: '"version":="2.0"', seen: 12, expected: 0, history_s: 90_000, reason: 'never seen before' }),
  ];
  await page.route('**/api/v1/stands_out', (route) => route.fulfill({ json: { state: 'watching', findings } }));
  await page.goto('/?view=summary');
  const list = page.getByTestId('watch');
  await expect(list.getByTestId('found')).toHaveCount(2);
  // The page's own list gives way.
  await expect(page.getByTestId('spikes')).toHaveCount(0);
  const silent = list.getByTestId('found').first();
  await expect(silent).toContainText('no lines for 12m');
  await expect(silent).toContainText('known for 2h only');
  await expect(list.getByTestId('found-part')).toHaveText(/hostname web-1 silent/);
  await silent.click();
  await expect.poll(() => decodeURIComponent(page.url())).toContain('"service":="shop"');
  await expect(page.getByTestId('query-input')).toBeVisible();
});

test('the summary has its own list where the server found nothing', async ({ page }) => {
  await page.route('**/api/v1/stands_out', (route) => route.fulfill({ status: 403, json: { error: 'not all lines' } }));
  await page.goto('/?view=summary');
  await expect(page.getByTestId('summary-types')).toBeVisible();
  await expect(page.getByTestId('watch')).toHaveCount(0);
});

test('what the server watches stands on the start page, and a click shows what changed', async ({ page }) => {
  const findings = [
    found(1, 12, {}),
    found(2, 12, { field: 'hostname', value: 'web-1', filter: '"hostname":="web-1"', part_of: 1 }),
    found(3, 900, { value: 'old', until: new Date(Date.now() - 800 * MINUTE_MS).toISOString() }),
  ];
  const since = new Date(Date.now() - 2_000 * MINUTE_MS).toISOString();
  await page.route('**/api/v1/stands_out', (route) => route.fulfill({ json: { state: 'watching', since, findings } }));
  const counted: string[] = [];
  page.on('request', (request) => {
    const asked = decodeURIComponent(`${request.url()} ${request.postData() ?? ''}`.replaceAll('+', ' '));
    if (asked.includes('| anomalies by (')) counted.push(asked);
  });
  await page.goto('/?range=1h');
  await settled(page);
  const chip = page.getByTestId('watched');
  await expect(chip).toHaveCount(1);
  await expect(chip).toContainText('shop silent');
  await expect(chip).toContainText('with 1 more');
  await expect(page.getByTestId('stands-done')).toBeAttached();
  // The page counts nothing that the server counts.
  await expect(page.getByTestId('own-list')).toHaveCount(0);
  expect(counted).toEqual([]);
  await expectAccessible(page);
  await chip.click();
  await expectQuery(page, /^\* \| differences where/);
  await settled(page);
  await expect(page.getByTestId('differences')).toBeVisible();

  // Of a part of the lines the page looks for itself: the server watches all of them.
  await page.goto(`/?range=1h&query=${encodeURIComponent('_type:=access')}`);
  await settled(page);
  await expect(page.getByTestId('stands-done')).toBeAttached();
  await expect(page.getByTestId('watched')).toHaveCount(0);
  expect(counted.length).toBeGreaterThan(0);
});
