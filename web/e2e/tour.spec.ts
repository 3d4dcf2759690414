// The tour of the page in a real browser: find the incident in the summary, drill down to the lines that explain it,
// narrow by a facet, follow live, cancel, share.
//
// Needs the lines of the demo generator of the last hour, with its incident: a burst of status 500
// in the type `access`.

import type { Locator, Page } from '@playwright/test';
import { completions, count, drawnBar, expand, expect, expectQuery, fillQuery, LEVEL, post, real, settled, settledRange, SLOW_QUERY, test, TYPE, watch } from './common';

const accessByStatus = (page: Page): Locator => page.locator('[data-testid="summary-card"][data-type="access"]').getByTestId('summary-by-status');

/**
 * The tallest segment of a status in the access chart. Only of bars to which no line can be added
 * any more, so that the number on it still holds when its lines are counted.
 */
async function tallestBar(page: Page, status: string): Promise<Locator> {
  const bars = accessByStatus(page).locator(`[data-testid="summary-bar"][data-series="${status}"]`);
  await expect(bars.first()).toBeAttached();
  const settledMs = Date.now() - 5 * 60_000;
  const values = await bars.evaluateAll(
    (all, before) => all.map((bar) => (Number(bar.getAttribute('data-from')) < before ? Number(bar.getAttribute('data-value')) : 0)),
    settledMs,
  );
  return bars.nth(values.indexOf(Math.max(...values)));
}

test.beforeEach(({ page }) => watch(page));

test('the histogram shows lines by level, and a click drills down', async ({ page }) => {
  await page.goto('/?range=1h');
  await settled(page);
  const bars = page.locator('[data-testid="histogram-bar"][data-series="info"]:not([data-part])');
  await expect(bars.nth(3)).toBeAttached();
  await expect(page.getByTestId('legend-entry').filter({ hasText: 'info' })).toBeVisible();
  // Of the hundred lines loaded, those in view and some around them.
  await expect(page.getByTestId('line-row').first()).toBeVisible();
  expect(await page.getByTestId('line-row').count()).toBeLessThan(100);
  const before = await count(page.getByTestId('hits'));

  const bar = bars.nth(Math.floor((await bars.count()) / 2));
  const [fromMs, value] = [Number(await bar.getAttribute('data-from')), (await bar.innerText()).trim()];
  const place = await drawnBar(page.getByTestId('histogram-chart'), bar, page.locator('[data-testid="legend-entry"][data-series="info"]'));
  await page.mouse.move(place.x, place.y);
  const tip = page.getByTestId('histogram').getByRole('status');
  await expect(tip).toContainText('Click');
  await expect(tip).toContainText(`info ${value}`);
  await page.mouse.click(place.x, place.y);
  await expect(page).toHaveURL(/from=.*&to=/);
  expect(Date.parse(new URL(page.url()).searchParams.get('from')!)).toBe(fromMs);
  await expect.poll(() => count(page.getByTestId('hits'))).toBeLessThan(before / 2);

  await page.getByTestId('range-back').click();
  await expect(page).toHaveURL(/range=1h/);
  await expect.poll(() => count(page.getByTestId('hits'))).toBeGreaterThan(before / 2);
});

test('a drag over the histogram picks a range', async ({ page }) => {
  await page.goto('/?range=1h');
  await settled(page);
  const box = (await page.getByTestId('histogram-chart').locator('.u-over').boundingBox())!;
  await page.mouse.move(box.x + box.width * 0.6, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.8, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await expect(page).toHaveURL(/from=.*&to=/);
  const url = new URL(page.url());
  const width = Date.parse(url.searchParams.get('to')!) - Date.parse(url.searchParams.get('from')!);
  expect(width).toBeGreaterThan(10 * 60_000);
  expect(width).toBeLessThan(15 * 60_000);
});

test('from the spike in the summary to the raw lines, their surroundings and the cause in another log', async ({ page }) => {
  await page.goto('/?range=1h');
  await page.getByTestId('view-summary').click();
  await expect(page.locator('[data-testid="summary-card"][data-type="access"]')).toBeVisible();

  const bar = await tallestBar(page, '500');
  const counted = Number(await bar.getAttribute('data-value'));
  const fromMs = Number(await bar.getAttribute('data-from'));
  expect(counted).toBeGreaterThan(5);
  const place = await drawnBar(accessByStatus(page).getByTestId('summary-chart'), bar, accessByStatus(page).locator('[data-testid="summary-legend"][data-series="500"]'));
  await page.mouse.click(place.x, place.y);

  await expectQuery(page, `${TYPE}:="access" status:="500"`);
  await settled(page);
  const url = new URL(page.url());
  expect(Date.parse(url.searchParams.get('from')!)).toBe(fromMs);
  // The chart and the lines show the same number.
  await expect.poll(() => count(page.getByTestId('hits'))).toBe(counted);

  const row = page.getByTestId('line-row').first();
  await expand(row);
  const detail = page.getByTestId('line-detail');
  await expect(detail.locator('[data-testid="field-row"][data-field="status"]')).toContainText('500');
  await expect(detail.getByTestId('raw-line')).toContainText('500');
  await detail.getByTestId('show-context').click();
  const panel = page.getByTestId('context-panel');
  await expect(panel.getByTestId('context-target')).toHaveCount(1);
  await expect(panel.getByTestId('context-target')).toBeInViewport();
  await expect(page).toHaveURL(/context=/);
  await page.keyboard.press('Escape');
  await expect(panel).toBeHidden();

  // The cause: every line of those seconds that is an error and not of the access log.
  await detail.getByTestId('around').click();
  await settled(page);
  await fillQuery(page, `NOT ${TYPE}:="access" ${LEVEL}:in("error","critical","alert","emerg")`);
  await page.getByTestId('query-input').press('Enter');
  if (real) {
    await settled(page);
    await expect(page.getByTestId('line-row').first()).toBeVisible();
  }
});

test('what stands out is named and one click away', async ({ page }) => {
  await page.goto('/?view=summary&range=1h');
  const spike = page.locator('[data-testid="spike"][data-type="access"][data-value="500"]').first();
  await expect(spike).toContainText('Show lines');
  await spike.click();
  await expectQuery(page, `${TYPE}:="access" status:="500"`);
  await settled(page);
  await expect(page.getByTestId('line-row').first()).toBeVisible();
});

test('a facet narrows, its minus excludes, and the count agrees', async ({ page }) => {
  // So that arriving lines do not change the counts.
  await page.goto(`/?${settledRange()}`);
  await fillQuery(page, `${TYPE}:="access"`);
  await page.getByTestId('run').click();
  await expect(page.getByTestId('facet').first()).toBeVisible();
  await settled(page);
  await page.goto(await permanentLink(page));
  await settled(page);
  const all = await count(page.getByTestId('hits'));
  const value = page.locator('[data-testid="facet-value"][data-field="status"]').nth(1);
  const status = await value.getAttribute('data-value');
  const counted = Number((await value.locator('.count').innerText()).replaceAll(',', ''));
  await value.click();
  await expectQuery(page, `${TYPE}:="access" status:="${status}"`);
  await expect.poll(() => count(page.getByTestId('hits'))).toBe(counted);

  await page.goBack();
  await expect.poll(() => count(page.getByTestId('hits'))).toBe(all);
  await page.locator(`[data-testid="facet"][data-field="status"] li`).nth(1).getByTestId('facet-value-exclude').click();
  await expectQuery(page, `${TYPE}:="access" NOT status:="${status}"`);
  await expect.poll(() => count(page.getByTestId('hits'))).toBe(all - counted);
});

test('fields and values are completed, and an error in a query shows its position', async ({ page }) => {
  await page.goto('/?range=1h');
  await settled(page);
  const input = page.getByTestId('query-input');
  // The query box has the focus at first. Once it was left, a slash leads back.
  await expect(input).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(input).not.toBeFocused();
  await page.keyboard.press('/');
  await expect(input).toBeFocused();
  await input.pressSequentially('hostn');
  await expect(completions(page).first()).toContainText('hostname');
  await page.keyboard.press('Tab');
  await expectQuery(page, 'hostname:');
  await expect(completions(page).first()).toBeVisible();
  const host = (await completions(page).first().locator('.cm-completionLabel').innerText()).trim();
  await page.keyboard.press('Tab');
  await expectQuery(page, `hostname:="${host}" `);
  await page.keyboard.press('Enter');
  await settled(page);
  await expect(page.getByTestId('line-row').first()).toContainText(host);

  await fillQuery(page, `${LEVEL}:="error" and (status:>=`);
  await input.press('Enter');
  await expect(page.getByTestId('query-error')).toContainText('Expected');
  await expect(page.getByTestId('query-error-caret')).toBeVisible();
});

test('live tail shows a line as it arrives; text of logs is never markup', async ({ page, request }) => {
  const token = `tail${Date.now()}`;
  await page.goto('/');
  await settled(page);
  await fillQuery(page, token);
  await page.getByTestId('query-input').press('Enter');
  await page.getByTestId('tail-toggle').click();
  await expect(page.getByTestId('tail-bar')).toContainText('Live');
  await post(request, { _msg: `${token} <img src=x onerror="document.title='pwned'"> first`, level: 'error', app_name: 'tour' });
  const row = page.getByTestId('line-row').filter({ hasText: `${token} <img src=x` });
  await expect(row).toHaveCount(1);
  expect(await page.locator('[data-testid="lines-table"] img').count()).toBe(0);

  await page.getByTestId('tail-pause').click();
  await post(request, { _msg: `${token} second`, level: 'info', app_name: 'tour' });
  await expect(page.getByTestId('tail-pause')).toContainText('1 new');
  await expect(page.getByTestId('line-row')).toHaveCount(1);
  await page.getByTestId('tail-pause').click();
  await expect(page.getByTestId('line-row')).toHaveCount(2);
  await expect(page.getByTestId('line-row').first()).toContainText('second');
});

async function permanentLink(page: Page): Promise<string> {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByTestId('copy-link').click();
  await expect(page.getByTestId('copy-link')).toContainText('Copied');
  return page.evaluate(() => navigator.clipboard.readText());
}

test('a shared link shows the same in another browser', async ({ page, browser, baseURL }) => {
  // A link of the last hour has the range of that hour; its last lines may arrive between the two looks.
  await page.goto('/?range=1h');
  await settled(page);
  expect(new URL(await permanentLink(page)).search).toMatch(/from=.*&to=/);
  await page.goto(`/?${settledRange()}`);
  await settled(page);
  await fillQuery(page, `${TYPE}:="access" status:="500"`);
  await page.getByTestId('query-input').press('Enter');
  await settled(page);
  await expect(page.getByTestId('line-row').first()).toBeVisible();
  const link = await permanentLink(page);
  const hits = await count(page.getByTestId('hits'));
  const rows = await page.getByTestId('line-row').allInnerTexts();

  const context = await browser.newContext(baseURL ? { baseURL } : {});
  const other = await context.newPage();
  await other.goto(link);
  await settled(other);
  await expectQuery(other, `${TYPE}:="access" status:="500"`);
  await expect.poll(() => count(other.getByTestId('hits'))).toBe(hits);
  await expect.poll(() => other.getByTestId('line-row').allInnerTexts()).toEqual(rows);
  await context.close();
});

for (const order of ['newest', 'oldest']) {
  test(`further lines load at the end without gap or repetition, ${order} first`, async ({ page }) => {
    await page.goto(`/?range=1h&order=${order}`);
    await settled(page);
    const ids = new Map<number, string>();
    // Scrolls the last row noted to the top, and only that: where the page draws later than the test
    // looks, the same rows are read again and none is passed over.
    await expect
      .poll(
        async () => {
          const rows = await page.getByTestId('line-row').evaluateAll((all) => {
            all.at(-1)?.scrollIntoView({ block: 'start' });
            return all.map((row) => [Number(row.getAttribute('aria-rowindex')), row.getAttribute('data-id') as string] as const);
          });
          expect(rows.length).toBeLessThan(100);
          for (const [place, id] of rows) {
            expect(ids.get(place) ?? id).toBe(id);
            ids.set(place, id);
          }
          return ids.size;
        },
        { intervals: [50] },
      )
      .toBeGreaterThan(650);
    expect(new Set(ids.values()).size).toBe(ids.size);
    const places = [...ids.keys()].sort((a, b) => a - b);
    expect(places[places.length - 1]).toBe(places.length + 1);
  });
}

test('keys move, expand and help; the theme changes', async ({ page }) => {
  await page.goto('/?range=1h');
  await settled(page);
  // The query box has the focus at first; keys are those of the page once it was left.
  await page.keyboard.press('Escape');
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  const second = page.getByTestId('line-row').nth(1);
  await expect(second).toBeFocused();
  await page.keyboard.press('Enter');
  await expect(second).toHaveAttribute('data-open', 'true');
  await expect(second.getByRole('button', { name: 'all fields' })).toHaveAttribute('aria-expanded', 'true');
  await page.keyboard.press('k');
  await expect(page.getByTestId('line-row').nth(0)).toBeFocused();
  await page.keyboard.press('?');
  await expect(page.getByTestId('help')).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('help')).toBeHidden();

  await page.getByTestId('theme-toggle').click();
  await page.getByTestId('theme-toggle').click();
  await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
});

test('the status shows rate, drops, disk and recovery', async ({ page }) => {
  await page.goto('/');
  await expect(page.getByTestId('strip-rate')).not.toHaveText('–');
  await expect(page.getByTestId('strip-disk')).toContainText('%');
  await page.getByTestId('view-status').click();
  await expect(page.getByTestId('ingest-row').first()).toBeVisible();
  await expect(page.getByTestId('drops')).toContainText('dropped');
  await expect(page.getByTestId('recovery')).not.toBeEmpty();
});

test.describe('cancelling', () => {
  test('a running query is cancelled next to the query bar', async ({ page, request }) => {
    await page.goto('/?range=all');
    await settled(page);
    await fillQuery(page, SLOW_QUERY);
    await page.getByTestId('query-input').press('Enter');
    await expect(page.getByTestId('progress')).toBeVisible();
    await page.getByTestId('cancel').click();
    await expect(page.getByTestId('cancelled')).toBeVisible();
    await expect(page.getByTestId('cancel')).toBeDisabled();
    await expect
      .poll(async () => {
        const { queries } = (await (await request.get('/api/v1/queries')).json()) as { queries: { query: string; state: string }[] };
        const ours = queries.filter((entry) => entry.query === SLOW_QUERY);
        return ours.length > 0 && ours.every((entry) => entry.state !== 'running' && entry.state !== 'waiting') && ours.some((entry) => entry.state === 'cancelled');
      })
      .toBe(true);
  });

  // The mock keeps no rows, and has no exports.
  if (real) {
    test('a query in the background is paused, resumed and read page by page; its rows are never markup', async ({ page, request }) => {
      const token = `kept${Date.now()}`;
      const body = Array.from({ length: 150 }, (_, i) => JSON.stringify({ _msg: `${token} <img src=x onerror="document.title='pwned'"> ${i}`, app_name: 'tour' })).join('\n');
      const answer = await request.post('/insert/jsonline?_stream_fields=app_name', { data: `${body}\n`, headers: { 'content-type': 'text/plain' } });
      expect(answer.ok(), await answer.text()).toBe(true);

      await page.goto('/?range=1h');
      await settled(page);
      await fillQuery(page, token);
      await page.getByTestId('run-background').click();
      const results = page.getByTestId('query-results');
      await expect(results.getByTestId('results-place')).toHaveText('1–100');
      await expect(results).toContainText(`${token} <img src=x`);
      expect(await results.locator('img').count()).toBe(0);
      await results.getByTestId('results-next').click();
      await expect(results.getByTestId('results-place')).toHaveText('101–150');
      await expect(results.getByTestId('results-next')).toBeDisabled();
      await results.getByTestId('results-previous').click();
      await expect(results.getByTestId('results-place')).toHaveText('1–100');
      // The link is to these rows.
      await page.reload();
      await expect(results.getByTestId('results-place')).toHaveText('1–100');
      const row = page.getByTestId('queue-row').filter({ hasText: token }).first();
      await expect(row).toHaveAttribute('data-state', 'done');
      await row.getByTestId('query-delete').click();
      await expect(page.getByTestId('queue-row').filter({ hasText: token })).toHaveCount(0);

      const slow = await request.post('/api/v1/queries', { form: { query: `!in_the_background (${SLOW_QUERY})` } });
      expect(slow.status()).toBe(202);
      const long = page.getByTestId('queue-row').filter({ hasText: 'in_the_background' }).first();
      await expect(long).toHaveAttribute('data-state', 'running');
      await long.getByTestId('query-pause').click();
      await expect(long).toHaveAttribute('data-state', 'paused');
      await long.getByTestId('query-resume').click();
      await expect(long).toHaveAttribute('data-state', 'running');
      await long.getByTestId('query-cancel').click();
      await expect(long).toHaveAttribute('data-state', 'cancelled');
    });

    test('all rows found are exported in the chosen format', async ({ page }) => {
      await page.goto('/?range=1h');
      await fillQuery(page, `${TYPE}:="access" status:="500"`);
      await page.getByTestId('run').click();
      await settled(page);
      await page.getByTestId('export-format').selectOption('csv');
      const download = page.waitForEvent('download');
      await page.getByTestId('download').click();
      expect((await download).suggestedFilename()).toBe('loginson.csv');
    });
  }

  test('a running query is cancelled in the queue', async ({ page, request }) => {
    // Excludes a word that no line has: it marks the query and does not make it faster.
    const slow = request.get('/select/logsql/query', { params: { query: `!in_the_queue (${SLOW_QUERY})` }, timeout: 0 }).catch(() => null);
    await page.goto('/?view=queries');
    const row = page.getByTestId('queue-row').filter({ hasText: 'in_the_queue' }).first();
    await expect(row).toHaveAttribute('data-state', 'running');
    await row.getByTestId('query-cancel').click();
    await expect(row).toHaveAttribute('data-state', 'cancelled');
    await slow;
  });
});
