// How a query runs: its plan, what a run takes, and in a cluster which nodes are asked.

import { expect, expectAccessible, expectNoSidewaysScrolling, real, settled, test, watch } from './common';

test.beforeEach(({ page }) => watch(page));

test('the plan of a query is told in sentences, and a run is measured', async ({ page }) => {
  // Without a server there are no plans.
  if (!real) return;
  await page.goto(`/?query=${encodeURIComponent('error | stats by (level) count() n')}&range=15m`);
  await settled(page);
  await page.getByTestId('plan-open').click();
  const lines = page.getByTestId('plan-lines');
  await expect(lines).toContainText('a unit is read only if it may hold "error"');
  await expect(lines.locator('dt', { hasText: 'pipe 1' })).toHaveCount(1);
  await expect(page.getByTestId('plan-shares')).toHaveCount(0);
  await page.getByTestId('plan-measure').click();
  await expect(page.getByTestId('plan-run')).toContainText(/ms|s/);
  await expect(page.getByTestId('plan-measure')).toHaveText('Measure again');
  await expectAccessible(page);
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('plan')).toHaveCount(0);
});

test('in a cluster the plan names the nodes, the slow one and what nobody answers for', async ({ page }) => {
  const run = { complete: true, first_ms: 3, ms: 12, blocks_planned: 8, blocks_done: 8, blocks_skipped: 2, bytes_scanned: 1_000_000, lines_scanned: 9_000, asked_elsewhere: null, answered_by: 'store-1', error: null };
  const share = { node: 'store-1', segments: 3, segments_lines: 120_000, segments_bytes: 5_000_000, segments_named: [], partitions: [{}, {}] };
  const slow = { ...share, node: 'store-2' };
  await page.route('**/select/logsql/explain**', (route) => {
    const asked = new URL(route.request().url()).searchParams;
    if (asked.get('format') !== 'json') return route.fulfill({ contentType: 'text/plain', body: 'query     *\ntime      all\nshare     store-1: 3 segments\n' });
    const ran = asked.get('analyze') === '1';
    const shares = [
      { ...share, run: ran ? run : null },
      { ...slow, run: ran ? { ...run, ms: 900, asked_elsewhere: 'store-3', answered_by: 'store-3' } : null },
    ];
    return route.fulfill({ json: { plans: [{ shares, out_of_reach: ['2 segments of 2026-01-31 are at store-4, which does not answer'], planned_again: null }], plans_left_out: 1, ...(ran ? { run: { ...run, ms: 910, rows: 17 } } : {}) } });
  });
  await page.goto('/?range=15m');
  await settled(page);
  await page.getByTestId('plan-open').click();
  await expect(page.getByTestId('plan-missing')).toContainText('store-4');
  const rows = page.getByTestId('plan-shares').locator('tbody tr');
  await expect(rows).toHaveCount(2);
  await expect(rows.first()).toContainText('–');
  await page.getByTestId('plan-measure').click();
  await expect(page.getByTestId('plan-run')).toContainText('17 rows');
  await expect(rows.nth(1)).toContainText('slow, so store-3 was asked too, and store-3 answered');
  await expect(page.getByTestId('plan')).toContainText('1 further plan');
  await expectAccessible(page);
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 800 });
    await expectNoSidewaysScrolling(page);
  }
});
