// Annotations: written by hand and by any sender, and marked on the time axis.

import { drawnMark, expect, expectAccessible, post, settled, test, watch } from './common';

test.beforeEach(({ page }) => watch(page));

test('a moment is annotated by hand and by a sender', async ({ page, request }) => {
  const [own, sent] = [`deploy of shop ${Date.now()}`, `<b>reboot</b> ${Date.now()}`];
  await post(request, { _time: new Date(Date.now() - 120_000).toISOString(), annotation: sent, app: 'ci' });
  await page.goto('/?range=15m');
  await settled(page);
  await page.getByTestId('annotate-open').click();
  await expectAccessible(page, [], '[data-testid="annotate"]');
  await page.getByTestId('annotate-text').fill(own);
  await page.getByTestId('annotate-time').fill('nonsense');
  await page.getByTestId('annotate-save').click();
  await expect(page.getByTestId('annotate')).toContainText('“nonsense” is not a time');
  const at = new Date(Date.now() - 300_000);
  await page.getByTestId('annotate-time').fill(at.toISOString().slice(0, 19).replace('T', ' '));
  await page.getByTestId('annotate-save').click();
  await expect(page.getByTestId('annotate')).toHaveCount(0);
  await expect(page.locator('[data-testid=time-mark][data-tone=note]')).not.toHaveCount(0);
  await expect
    .poll(async () => {
      await page.getByTestId('run').click();
      await settled(page);
      return page.locator('[data-testid=time-mark][data-tone=note]').count();
    })
    .toBeGreaterThanOrEqual(2);
  await drawnMark(page, page.getByTestId('histogram-chart'), page.locator('[data-testid=time-mark][data-tone=note]').first(), '--accent');
  // A panel over time shows it too.
  const id = `marks${Date.now()}`;
  const panels = [{ id: '1', title: 'All', query: '* | stats by (_time:1m) count() n', width: 12, height: 'normal', options: { kind: 'line' } }];
  expect((await request.put(`/api/v1/dashboards/${id}`, { data: { id, title: id, version: 0, panels } })).ok()).toBe(true);
  await page.goto(`/?view=dashboards&dashboard=${id}&range=15m`);
  await expect.poll(async () => Number(await page.getByTestId('time-chart').getAttribute('data-marks'))).toBeGreaterThanOrEqual(2);
  await request.delete(`/api/v1/dashboards/${id}`);
  // An annotation is a line like others.
  await page.goto(`/?range=15m&query=${encodeURIComponent('annotation:*')}`);
  await settled(page);
  await expect(page.getByTestId('line-row').filter({ hasText: own })).toHaveCount(1);
});
