// The rejected documents of a sink. Without a binary playwright.config.ts leaves this file out.

import { expect, expectAccessible, expectNoSidewaysScrolling, test, watch } from './common';
import { startWithSink, type WithSink } from './servers';

test.describe.configure({ mode: 'default' });
let server: WithSink;
test.beforeAll(async () => void (server = await startWithSink()));
test.afterAll(async () => server.stop());
test.beforeEach(({ page }) => watch(page));

test('documents that a destination rejected are read, delivered again and discarded', async ({ page, request }) => {
  const send = async (from: number, lines: number): Promise<void> => {
    const text = Array.from({ length: lines }, (_, index) => JSON.stringify({ _msg: `<b>order</b> ${from + index} failed`, level: 'error', host: 'db1' })).join('\n');
    expect((await request.post(`${server.url}/insert/jsonline`, { data: text, headers: { 'Content-Type': 'application/stream+json' } })).ok()).toBe(true);
  };
  await send(0, 3);
  await page.goto(`${server.url}/?view=programs`);
  const sink = page.locator('[data-testid="sink-row"][data-name="errors"]');
  await expect(sink.locator('[data-label="Rejected"]')).toContainText('3');
  await sink.getByTestId('rejected-open').click();
  await expect(page.getByTestId('rejected-total')).toHaveText('3 documents.');
  const row = page.getByTestId('rejected-row').first();
  await expect(row).toContainText('422');
  await row.locator('summary').click();
  await expect(row.locator('dl')).toContainText('<b>order</b>');
  await expectAccessible(page);
  await expectNoSidewaysScrolling(page);

  // The cause is mended.
  server.accept();
  await page.getByTestId('rejected-retry').click();
  await expect(page.getByTestId('rejected-told')).toContainText('3 documents will be delivered again');
  await expect(page.getByTestId('rejected-none')).toBeVisible();
  expect(server.taken()).toBeGreaterThanOrEqual(3);
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('rejected')).toHaveCount(0);
});

test('rejected documents are removed once one was asked', async ({ page }) => {
  const documents = [{ rejected_at: '2026-01-31T12:00:00Z', reason: 'mapper_parsing_exception', id: 'a-1', time: '2026-01-31T11:59:00Z', fields: { level: 'error' }, node: 'store-1' }];
  let total = 120;
  await page.route('**/api/v1/sinks/errors/rejected**', async (route) => {
    const away = [{ node: 'store-2', error: 'store-2 has not been heard of for 70 s' }];
    if (route.request().method() !== 'DELETE') return route.fulfill({ json: { documents: total > 0 ? documents : [], documents_total: total, out_of_reach: away } });
    const removed = total;
    total = 0;
    return route.fulfill({ json: { documents: removed, out_of_reach: away } });
  });
  await page.goto(`${server.url}/?view=programs`);
  await page.getByTestId('rejected-open').click();
  await expect(page.getByTestId('rejected-total')).toHaveText('120 documents; the newest 1 are listed.');
  await expect(page.getByTestId('rejected-away')).toContainText('store-2 has not been heard of');
  await expect(page.getByTestId('rejected-row')).toContainText('store-1');
  await page.getByTestId('rejected-discard').click();
  await expect(page.getByTestId('rejected-discard')).toHaveText('Remove 120 documents for ever?');
  await expect(page.getByTestId('rejected-row')).toHaveCount(1);
  await page.getByTestId('rejected-discard').click();
  await expect(page.getByTestId('rejected-told')).toHaveText('120 documents removed.');
  await expect(page.getByTestId('rejected-none')).toBeVisible();
});
