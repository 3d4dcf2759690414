// What operators rely on at night: nothing that they chose or typed vanishes, charts and tables are
// correct, and the page reports the state of the server without contradictions.

import type { Page } from '@playwright/test';
import { changeStatus, count, expect, expectQuery, fillQuery, LEVEL, post, real, settled, SLOW_QUERY, test, TYPE, watch } from './common';

test.beforeEach(({ page }) => watch(page));

const scrolled = (page: Page): Promise<number> => page.evaluate(() => document.querySelector('main')!.scrollTop);

function facet(page: Page, field: string, value?: string) {
  const all = page.locator(`[data-testid="facet-value"][data-field="${field}"]`);
  return value === undefined ? all : all.and(page.locator(`[data-value="${value}"]`));
}

test('facets keep the chosen values, and each can be added and removed', async ({ page }) => {
  await page.goto(`/?range=1h&query=${encodeURIComponent(`${TYPE}:="access"`)}`);
  await settled(page);
  // Every line has this one value: it is shown all the same.
  await expect(facet(page, TYPE, 'access')).toHaveAttribute('aria-pressed', 'true');
  await expect(page.locator('[data-testid="facet"][data-constant="true"]').first()).toBeVisible();
  // Scrolled down, as after reading.
  await expect
    .poll(async () => {
      await page.evaluate(() => document.querySelector('main')!.scrollTo({ top: 700 }));
      return scrolled(page);
    })
    .toBeGreaterThan(300);
  await facet(page, 'status', '500').click();
  await expectQuery(page, `${TYPE}:="access" status:="500"`);
  await settled(page);
  await expect.poll(() => scrolled(page), { message: 'a new result is read from its beginning' }).toBe(0);

  await expect(facet(page, 'status', '500')).toHaveAttribute('aria-pressed', 'true');
  await expect(facet(page, 'status', '200')).toBeVisible();
  const only = await count(page.getByTestId('hits'));
  await facet(page, 'status', '200').click();
  await expectQuery(page, `${TYPE}:="access" (status:="500" or status:="200")`);
  await settled(page);
  await expect.poll(() => count(page.getByTestId('hits'))).toBeGreaterThan(only);
  await facet(page, 'status', '500').click();
  await expectQuery(page, `${TYPE}:="access" status:="200"`);
  await facet(page, 'status', '200').click();
  await expectQuery(page, `${TYPE}:="access"`);
  // Excluded values stay visible too.
  const minus = page.locator('[data-testid="facet"][data-field="status"] li').filter({ has: page.locator('[data-value="200"]') }).getByTestId('facet-value-exclude');
  await minus.click();
  await expectQuery(page, `${TYPE}:="access" NOT status:="200"`);
  await settled(page);
  await expect(minus).toHaveAttribute('aria-pressed', 'true');
  await minus.click();
  await expectQuery(page, `${TYPE}:="access"`);
});

test('a level of the legend is added to another, and removed', async ({ page }) => {
  await page.goto('/?range=1h');
  await settled(page);
  await expect(page.getByTestId('facet').first()).toBeVisible();
  const entry = (level: string) => page.locator(`[data-testid="legend-entry"][data-series="${level}"]`);
  await entry('error').click();
  await expectQuery(page, `${LEVEL}:="error"`);
  await settled(page);
  await expect(entry('warning')).toBeVisible();
  await entry('warning').click();
  await expectQuery(page, `(${LEVEL}:="error" or ${LEVEL}:="warning")`);
  await settled(page);
  await entry('error').click();
  await entry('warning').click();
  await expectQuery(page, '*');
});

test('a draft survives a facet, a change of the view, and a live tail', async ({ page }) => {
  await page.goto('/?range=1h');
  await settled(page);
  await expect(facet(page, TYPE, 'access')).toBeVisible();
  await fillQuery(page, '"GET /');
  await expect(page.getByTestId('run')).toHaveAttribute('data-edited', 'true');
  await page.getByTestId('view-status').click();
  await page.getByTestId('view-lines').click();
  await expectQuery(page, '"GET /');
  await facet(page, TYPE, 'access').click();
  // The open quote is closed before something is appended.
  await expectQuery(page, `"GET /" ${TYPE}:="access"`);
  await settled(page);
  await expect(page.getByTestId('run')).toHaveAttribute('data-edited', 'false');
  await page.goBack();
  await expectQuery(page, '"GET /');
  await fillQuery(page, 'some_word');
  await page.getByTestId('tail-toggle').click();
  await expect(page).toHaveURL(/query=some_word/);
  await expect(page.getByTestId('tail-bar')).toContainText('Live');
});

test('bars have gaps, and incomplete ones say so', async ({ page }) => {
  // A line that marks an event may stand in a gap: other tests write annotations, and alerts fire.
  await page.route(/\/select\/logsql\/query\?.*query=annotation/, (route) => route.fulfill({ body: '' }));
  await page.route('**/api/v1/alerts/history*', (route) => route.fulfill({ json: { changes: [] } }));
  await page.goto('/?range=1h');
  await settled(page);
  const chart = page.getByTestId('histogram-chart');
  // A refresh may redraw the chart between two looks.
  await expect(async () => {
    const buckets = Number(await chart.getAttribute('data-buckets'));
    // Pixels of the lowest rows that have the colour of a level, side by side: none is wider than a bar.
    const widest = await chart.locator('canvas').evaluate((element) => {
      const canvas = element as HTMLCanvasElement;
      const plot = canvas.parentElement!.querySelector('.u-over')!.getBoundingClientRect();
      const box = canvas.getBoundingClientRect();
      const scale = canvas.width / box.width;
      const runs: number[] = [];
      for (const above of [2, 4, 8]) {
        const { data, width } = canvas.getContext('2d')!.getImageData(0, Math.round((plot.bottom - box.top - above) * scale), canvas.width, 1);
        let run = 0;
        for (let at = 0; at < width; at++) {
          const [red, green, blue, alpha] = [data[at * 4]!, data[at * 4 + 1]!, data[at * 4 + 2]!, data[at * 4 + 3]!];
          run = alpha > 200 && Math.max(red, green, blue) - Math.min(red, green, blue) > 40 ? run + 1 : 0;
          runs.push(run);
        }
      }
      return { run: Math.max(...runs) / scale, plot: plot.width };
    });
    expect(widest.run).toBeGreaterThanOrEqual(1);
    expect(widest.run).toBeLessThanOrEqual(Math.ceil(widest.plot / buckets) - 1);
  }).toPass();
  const last = Number(await chart.getAttribute('data-buckets')) - 1;
  const bars = await page.getByTestId('histogram-bar').evaluateAll((all) => all.map((bar) => [Number(bar.getAttribute('data-bucket')), bar.getAttribute('data-part')] as const));
  const inPart = new Map(bars.filter(([, part]) => part !== null));
  // Only the bars at the ends are incomplete. The last one has no lines yet if its time has just begun.
  for (const [bucket, part] of inPart) expect([bucket, part]).toEqual(bucket === 0 ? [0, 'cut'] : [last, 'filling']);
  for (const [bucket, part] of bars) if (bucket === last) expect(part).toBe('filling');
  // The last bar of the chart, wherever its lines end.
  const box = (await chart.locator('.u-over').boundingBox())!;
  await page.mouse.move(box.x + box.width - 3, box.y + box.height / 2);
  await expect(page.getByTestId('bar-part')).toContainText('not over yet');
});

test('the keyboard moves through the bars of the histogram, also while it is refreshed', async ({ page }) => {
  await page.goto('/?range=15m&refresh=5');
  await settled(page);
  const chart = page.getByTestId('histogram-chart');
  await chart.focus();
  await page.keyboard.press('End');
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowLeft');
  const tip = page.getByTestId('histogram').getByRole('status');
  await expect(tip).toContainText('total');
  // Lines arrive, so a refresh changes the last bar.
  const last = page.getByTestId('histogram-bar').last();
  const before = (await last.innerText()).trim();
  await expect(last).not.toHaveText(before);
  await expect(tip).toContainText('total');
  await page.keyboard.press('Shift+ArrowLeft');
  await page.keyboard.press('Shift+ArrowLeft');
  await page.keyboard.press('Enter');
  await expect(page).toHaveURL(/from=.*&to=/);
  const params = new URL(page.url()).searchParams;
  expect(Date.parse(params.get('to')!) - Date.parse(params.get('from')!)).toBe(3 * 10_000);
  await page.goBack();
  await settled(page);
  await chart.focus();
  await page.keyboard.press('ArrowRight');
  await expect(tip).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(tip).toHaveCount(0);
});

// dev/mock.ts computes no averages.
if (real) test('tables are sorted, in the zone of the page, rounded, and copied in full', async ({ page }) => {
  const query = `${TYPE}:="access" | stats by (_time:10m, status) count() lines, avg(bytes) mean, avg(no_such_field) none`;
  await page.goto(`/?range=1h&query=${encodeURIComponent(query)}`);
  await settled(page);
  const cells = (column: string) => page.locator(`[data-testid="result-row"] td[data-column="${column}"]`);
  await expect(cells('_time').first()).toHaveText(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/);
  const times = await cells('_time').allInnerTexts();
  expect(times).toEqual([...times].sort());
  for (const mean of await cells('mean').allInnerTexts()) expect(mean).toMatch(/^(–|[\d,]*(\.\d{1,3})?)$/);
  expect(new Set(await cells('none').allInnerTexts())).toEqual(new Set(['–']));
  const header = (column: string) => page.locator(`th:has([data-column="${column}"])`);
  await expect(header('_time')).toHaveAttribute('aria-sort', 'ascending');
  await page.locator('[data-testid="result-sort"][data-column="lines"]').click();
  await expect(header('lines')).toHaveAttribute('aria-sort', 'descending');
  const lines = (await cells('lines').allInnerTexts()).map((text) => Number(text.replaceAll(',', '')));
  expect(lines).toEqual([...lines].sort((a, b) => b - a));
  expect(await cells('lines').first().evaluate((cell) => getComputedStyle(cell).textAlign)).toBe('right');
  // The full value is copied.
  const full = (await cells('mean').first().getAttribute('data-full')) as string;
  const copied = await cells('mean').first().evaluate((cell) => {
    getSelection()!.selectAllChildren(cell.parentElement!);
    const event = new ClipboardEvent('copy', { clipboardData: new DataTransfer(), bubbles: true, cancelable: true });
    cell.dispatchEvent(event);
    return event.clipboardData!.getData('text/plain');
  });
  expect(copied.split('\t')).toContain(full);
});

// dev/mock.ts has no pipe that drops rows.
if (real) test('pipes without a row do not say that no line matches', async ({ page }) => {
  await page.goto(`/?range=1h&query=${encodeURIComponent(`${TYPE}:="access" | stats by (status) count() n | filter n:>999999999`)}`);
  await settled(page);
  await expect(page.getByTestId('no-lines')).toContainText('but the pipes make no row from them');
  await expect(page.getByTestId('no-lines')).not.toContainText('No line matches');
});

test('the disk meter shows the share of usable space, and who uses it', async ({ page }) => {
  const GIB = 2 ** 30;
  await changeStatus(page, (status) => {
    Object.assign(status['store'] as object, { disk_total_bytes: 100 * GIB, disk_used_bytes: 9 * GIB, disk_free_bytes: 28 * GIB, bytes_disk: 2 * GIB });
  });
  await page.goto('/?view=status');
  await expect(page.getByTestId('strip-disk')).toHaveText('24%');
  await expect(page.getByTestId('disk-share')).toHaveText('24% used: 2 GiB by Loginson’s segments, 7 GiB by others; 28 GiB free');
  await expect(page.getByTestId('status')).toContainText('63 GiB more are reserved');
});

test('trouble of the server is reported once', async ({ page }) => {
  let change = (_status: Record<string, unknown>): void => {};
  await changeStatus(page, (status) => change(status));
  await page.goto('/?range=1h');
  await settled(page);
  const trouble = page.getByTestId('trouble');
  await expect(trouble).toHaveCount(0);
  change = (status) => Object.assign(status['store'] as object, { state: 'disk_full' });
  await expect(trouble).toHaveAttribute('data-kind', 'refusing');
  for (const view of ['lines', 'summary', 'programs', 'queries', 'status']) {
    await page.getByTestId(`view-${view}`).click();
    await expect(page.getByRole('alert')).toHaveCount(1);
  }
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.route('**/{api,select}/**', (route) => route.abort());
  await expect(trouble).toHaveAttribute('data-kind', 'unreachable');
  await page.getByTestId('view-lines').click();
  await expect(page.getByRole('alert')).toHaveCount(1);
  await expect(page.getByTestId('empty-state')).toHaveCount(0);
  await expect(page.getByTestId('no-lines')).toHaveCount(0);
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await expect(trouble).toHaveCount(0);
  await settled(page);
  await expect(page.getByTestId('line-row').first()).toBeVisible();
});

test('an empty server shows commands with its own address', async ({ page, baseURL }) => {
  await changeStatus(page, (status) => Object.assign(status['store'] as object, { lines: 0, oldest: null, newest: null }));
  await page.goto('/?query=no_line_has_this_word');
  await expect(page.getByTestId('empty-state')).toContainText(`${new URL(baseURL as string).origin}/insert/jsonline`);
  await page.getByTestId('way-files').click();
  await expect(page.getByTestId('empty-state')).toContainText(`loginson import --server ${new URL(baseURL as string).origin} /var/log`);
});

test('data is added by a text to copy, and what arrives is named', async ({ page, request, baseURL }) => {
  await page.goto('/');
  await settled(page);
  await page.getByTestId('add-data-open').click();
  const dialog = page.getByTestId('add-data');
  await dialog.getByTestId('way-opentelemetry').click();
  await expect(dialog.getByTestId('way-text')).toContainText(`${new URL(baseURL as string).origin}/v1/logs`);
  const host = `new-${Date.now()}`;
  await post(request, { _time: new Date().toISOString(), _msg: 'hello', hostname: host, app_name: 'hello' });
  const one = dialog.getByTestId('arrived').getByRole('listitem').filter({ hasText: host });
  await expect(one).toContainText(/^1 line of json from .*new$/);
  await one.getByRole('button').click();
  await expect(dialog).toHaveCount(0);
  await expect(page.getByTestId('line-row')).toHaveCount(1);
});

test('a cancelled query is not an error', async ({ page, request }) => {
  await page.goto('/?range=all');
  await settled(page);
  await fillQuery(page, `!cancelled_elsewhere (${SLOW_QUERY})`);
  await page.getByTestId('query-input').press('Enter');
  await expect(page.getByTestId('progress')).toBeVisible();
  // Cancelled in the queue, as from another window.
  await expect
    .poll(async () => {
      const { queries } = (await (await request.get('/api/v1/queries')).json()) as { queries: { id: string; query: string; state: string }[] };
      const ours = queries.filter((entry) => entry.query.includes('cancelled_elsewhere') && entry.state === 'running');
      await Promise.all(ours.map((entry) => request.delete(`/api/v1/queries/${entry.id}`)));
      return page.getByTestId('cancelled').isVisible();
    })
    .toBe(true);
  await expect(page.getByTestId('query-error')).toHaveCount(0);
  await page.getByTestId('view-queries').click();
  const row = page.locator('[data-testid="queue-row"][data-state="cancelled"]').first();
  await expect(row).toBeVisible();
  await expect(row.locator('.bad')).toHaveCount(0);
});

// dev/mock.ts keeps no rows of background queries.
if (real) test('a shared background query keeps its range', async ({ page, browser, baseURL }) => {
  const to = Date.now() - 20 * 60_000;
  const [from, until] = [new Date(to - 600_000).toISOString(), new Date(to).toISOString()];
  await page.goto(`/?from=${from}&to=${until}&query=${encodeURIComponent(`${TYPE}:="access" status:="500"`)}`);
  await settled(page);
  await page.getByTestId('run-background').click();
  await expect(page.getByTestId('query-results')).toBeVisible();
  const id = new URL(page.url()).searchParams.get('results') as string;
  for (const link of [page.url(), `/?view=queries&results=${id}`]) {
    const context = await browser.newContext(baseURL ? { baseURL } : {});
    const other = await context.newPage();
    await other.goto(link);
    await expect(other.getByTestId('results-range')).toContainText('–');
    await other.locator(`[data-testid="queue-row"][data-id="${id}"]`).getByTestId('query-open').click();
    await settled(other);
    const at = new URL(other.url()).searchParams;
    expect([at.get('from'), at.get('to'), at.get('query')]).toEqual([from, until, `${TYPE}:="access" status:="500"`]);
    await context.close();
  }
  // When the rows have expired, the link still contains the query.
  const url = page.url();
  await page.locator(`[data-testid="queue-row"][data-id="${id}"]`).getByTestId('query-delete').click();
  await expect(page.getByTestId('results-gone')).toHaveCount(0);
  await page.goto(url);
  await page.getByTestId('results-gone').getByRole('link').click();
  await expect(page).toHaveURL(/from=.*&to=/);
  await expectQuery(page, `${TYPE}:="access" status:="500"`);
});

// dev/mock.ts does not compress.
if (real) test('the page and its answers are compressed, and a tail is not held back', async ({ request, page, baseURL }) => {
  for (const path of ['/', '/api/v1/status', '/select/logsql/query?query=*&limit=100', '/metrics']) {
    const answer = await request.get(path, { headers: { 'accept-encoding': 'gzip' } });
    expect(answer.headers()['content-encoding'], path).toBe('gzip');
    expect((await answer.body()).length).toBeGreaterThan(500);
    const plain = await request.get(path, { headers: { 'accept-encoding': 'identity' } });
    expect(plain.headers()['content-encoding'], path).toBeUndefined();
  }
  await page.goto('/');
  const token = `flush${Date.now()}`;
  const seen = page.evaluate(async (token) => {
    const answer = await fetch(`/select/logsql/tail?query=${token}`);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; ; ) {
      const { value, done } = await reader.read();
      text += value ?? '';
      if (done || text.includes('the line')) return text;
    }
  }, token);
  const answer = await request.post(`${baseURL}/insert/jsonline`, { data: `${JSON.stringify({ _msg: `${token} the line` })}\n`, headers: { 'content-type': 'text/plain' } });
  expect(answer.ok()).toBe(true);
  expect(await seen).toContain(token);
});

test('a search is one entry of the queries, and its parts are behind it', async ({ page }) => {
  const word = `one${Date.now()}`;
  await page.goto(`/?range=1h&query=${encodeURIComponent(`!${word}`)}`);
  await settled(page);
  await expect(page.getByTestId('facets')).toHaveAttribute('data-stale', 'false');
  await page.getByTestId('view-queries').click();
  const rows = page.locator('[data-testid="queue-row"][data-state="done"]').filter({ hasText: word });
  await expect(rows).toHaveCount(1);
  await rows.first().getByTestId('queue-more').click();
  await expect.poll(() => rows.count()).toBeGreaterThan(2);
  await expect(rows.nth(1)).toHaveAttribute('data-side', 'true');
});
