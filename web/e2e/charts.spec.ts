// Results of `stats` as charts: what is drawn at once, what can be chosen, what a link keeps, and the way from a point to
// its lines. Numbers on the page are compared with what the server answers.

import type { APIRequestContext, Page } from '@playwright/test';
import { count, expect, expectAccessible, expectNoSidewaysScrolling, expectQuery, settled, test, TYPE, watch } from './common';

const ACCESS = `${TYPE}:="access"`;
const JSON_LINES = `${TYPE}:="json" duration_ms:*`;
const OVER_TIME = `${ACCESS} | stats by (_time:5m, status) count() n`;
const PERCENTILES = `${JSON_LINES} | stats by (_time:5m) quantile(0.5, duration_ms) p50, quantile(0.99, duration_ms) p99, count() n`;

/** A range that no new line changes: from 50 to 5 minutes ago, in whole buckets of five minutes. */
const END = Math.floor((Date.now() - 5 * 60_000) / 300_000) * 300_000;
const START = END - 45 * 60_000;
const RANGE = `from=${new Date(START).toISOString()}&to=${new Date(END).toISOString()}`;

async function open(page: Page, query: string, more = '', range = RANGE): Promise<void> {
  await page.goto(`/?${range}&query=${encodeURIComponent(query)}${more}`);
  await settled(page);
}

const kind = (page: Page) => page.getByTestId('chart-view');
const chart = (page: Page) => page.getByTestId('time-chart');

async function rowsOf(request: APIRequestContext, query: string): Promise<Record<string, string>[]> {
  const params = { query, start: new Date(START).toISOString(), end: new Date(END).toISOString(), limit: '0' };
  const answer = await request.get('/select/logsql/query', { params });
  expect(answer.ok(), await answer.text()).toBe(true);
  const text = await answer.text();
  return text.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line) as Record<string, string>);
}

test.beforeEach(({ page }) => watch(page));

test.describe('charts', () => {
  test('a result is drawn at once, in the chart that fits it', async ({ page }) => {
    for (const [query, expected] of [
      [OVER_TIME, 'line'],
      [`${ACCESS} | stats by (status) count() n`, 'top'],
      [`${ACCESS} | stats count() n`, 'single'],
      [`${JSON_LINES} | stats histogram(duration_ms) h`, 'histogram'],
      [`${JSON_LINES} | stats by (_time:5m) histogram(duration_ms) h`, 'heat'],
      [`${ACCESS} | stats by (status, method) count() n`, 'table'],
    ] as const) {
      await open(page, query);
      await expect(kind(page)).toHaveAttribute('data-kind', expected);
    }
  });

  test('every kind can be chosen, and stands in the link', async ({ page }) => {
    await open(page, OVER_TIME);
    for (const [id, testid] of [['area', 'time-chart'], ['bars', 'time-chart'], ['heat', 'heat-chart'], ['pie', 'pie-chart'], ['single', 'singles'], ['top', 'top-list'], ['table', 'result-table'], ['line', 'time-chart']] as const) {
      await page.getByTestId(`kind-${id}`).click();
      await expect(page.getByTestId(testid).first()).toBeVisible();
      await expect(page).toHaveURL(new RegExp(`chart=${id}`));
    }
    await page.getByTestId('kind-bars').click();
    await expect(chart(page)).toHaveAttribute('data-stack', 'stacked');
    await page.getByTestId('chart-stack').selectOption('percent');
    await expect(page).toHaveURL(/stack=percent/);
    await page.reload();
    await expect(chart(page)).toHaveAttribute('data-kind', 'bars');
    await expect(chart(page)).toHaveAttribute('data-stack', 'percent');
  });

  test('the canvas is not empty, also under the content security policy', async ({ page }) => {
    for (const [query, more, testid] of [
      [PERCENTILES, '', 'time-chart'],
      [OVER_TIME, '&chart=heat', 'heat-chart'],
      [OVER_TIME, '&chart=pie', 'pie-chart'],
      [`${JSON_LINES} | stats histogram(duration_ms) h`, '', 'bins-chart'],
    ] as const) {
      await open(page, query, more);
      const canvases = page.getByTestId(testid).locator('canvas');
      await expect(canvases.first()).toBeVisible();
      // Colours of the palette, not only the grey of axes.
      await expect
        .poll(() =>
          canvases.evaluateAll((all) => {
            let colourful = 0;
            for (const canvas of all as HTMLCanvasElement[]) {
              const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
              for (let at = 0; at < data.length; at += 4) {
                const [red, green, blue, alpha] = [data[at]!, data[at + 1]!, data[at + 2]!, data[at + 3]!];
                if (alpha > 200 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) colourful++;
              }
            }
            return colourful;
          }),
        )
        .toBeGreaterThan(100);
    }
  });

  test('the legend hides series, shows one alone, and the link keeps that', async ({ page, request }) => {
    const sums = new Map<string, number>();
    for (const row of await rowsOf(request, OVER_TIME)) sums.set(row['status'] ?? '', (sums.get(row['status'] ?? '') ?? 0) + Number(row['n']));
    await open(page, OVER_TIME);
    const series = (label: string) => page.locator(`[data-testid="series"][data-series="${label}"]`);
    await expect(page.getByTestId('series')).toHaveCount(sums.size);
    expect(Number((await series('200').locator('.size').innerText()).replaceAll(',', ''))).toBe(sums.get('200'));

    await series('200').click();
    await expect(series('200')).toHaveAttribute('aria-pressed', 'false');
    await expect(chart(page)).toHaveAttribute('data-series', String(sums.size - 1));
    await expect(page).toHaveURL(/hide=200/);
    await page.reload();
    await expect(chart(page)).toHaveAttribute('data-series', String(sums.size - 1));

    await series('500').click({ modifiers: ['Shift'] });
    await expect(chart(page)).toHaveAttribute('data-series', '1');
    await expect(page).toHaveURL(/only=500/);
    await series('500').click({ modifiers: ['Alt'] });
    await expect(chart(page)).toHaveAttribute('data-series', String(sums.size));
  });

  test('dragging zooms to whole buckets', async ({ page }) => {
    await open(page, OVER_TIME);
    await expect(chart(page)).toHaveAttribute('data-buckets', '9');
    const box = (await chart(page).locator('.u-over').boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.4, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 70, { steps: 6 });
    await page.mouse.up();
    await expect.poll(() => new URL(page.url()).searchParams.get('from')).not.toBe(new Date(START).toISOString());
    const params = new URL(page.url()).searchParams;
    const [from, to] = [Date.parse(params.get('from')!), Date.parse(params.get('to')!)];
    expect(from % 300_000).toBe(0);
    expect((to - from) / 300_000).toBe(3);
    expect(params.get('query')).toBe(OVER_TIME);
    await page.goBack();
    await expect(chart(page)).toHaveAttribute('data-buckets', '9');
  });

  test('a point leads to its lines: their group and their time', async ({ page, request }) => {
    await open(page, OVER_TIME, '&chart=bars&only=200');
    const box = (await chart(page).locator('.u-over').boundingBox())!;
    // The lowest pixels of the fourth of nine bars.
    await page.mouse.move(box.x + (box.width * 3.5) / 9, box.y + box.height - 4);
    await expect(page.getByTestId('chart-tip')).toContainText('200');
    await page.mouse.click(box.x + (box.width * 3.5) / 9, box.y + box.height - 4);
    await expect(page).toHaveURL(/status%3A%3D%22200%22/);
    const params = new URL(page.url()).searchParams;
    expect(params.get('query')).toBe(`${ACCESS} status:="200"`);
    expect(params.get('chart')).toBeNull();
    const from = START + 3 * 300_000;
    expect([Date.parse(params.get('from')!), Date.parse(params.get('to')!)]).toEqual([from, from + 300_000]);
    const row = (await rowsOf(request, OVER_TIME)).find((one) => one['status'] === '200' && Date.parse(one['_time']!) === from);
    await expect.poll(() => count(page.getByTestId('hits'))).toBe(Number(row?.['n']));
    await expect(page.getByTestId('line-row').first()).toBeVisible();
  });

  test('the keyboard does what the pointer does', async ({ page }) => {
    await open(page, OVER_TIME, '&chart=bars');
    await chart(page).focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    await expect(page.getByTestId('chart-tip')).toContainText('total');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await expect(page).toHaveURL(/status%3A%3D%22/);
    expect(Date.parse(new URL(page.url()).searchParams.get('from')!)).toBe(START + 300_000);

    await page.goBack();
    await expect(chart(page)).toBeVisible();
    await chart(page).focus();
    await page.keyboard.press('End');
    await page.keyboard.press('Shift+ArrowLeft');
    await page.keyboard.press('Shift+ArrowLeft');
    await page.keyboard.press('Enter');
    await expect.poll(() => Date.parse(new URL(page.url()).searchParams.get('from')!)).toBe(END - 3 * 300_000);
  });

  test('a top list and a pie lead to the lines of a group', async ({ page, request }) => {
    const query = `${ACCESS} | stats by (status) count() n`;
    const rows = (await rowsOf(request, query)).sort((a, b) => Number(b['n']) - Number(a['n']));
    await open(page, query);
    const slices = page.getByTestId('slice');
    await expect.poll(() => slices.evaluateAll((all) => all.map((one) => [one.getAttribute('data-label'), one.getAttribute('data-value')]))).toEqual(rows.map((row) => [row['status'], row['n']]));
    await page.getByTestId('kind-pie').click();
    await expect(page.getByTestId('pie-chart')).toHaveAttribute('data-slices', String(rows.length));
    await slices.nth(1).click();
    await expect.poll(() => new URL(page.url()).searchParams.get('query')).toBe(`${ACCESS} status:="${rows[1]?.['status']}"`);
    await expect.poll(() => count(page.getByTestId('hits'))).toBe(Number(rows[1]?.['n']));
  });

  test('a result without time is drawn over time, and a single value has its course beside it', async ({ page }) => {
    await open(page, `${ACCESS} | stats count() n`);
    await expect(page.getByTestId('single')).toHaveAttribute('data-label', 'n');
    await expect(page.getByTestId('sparkline')).toBeVisible();
    const value = Number(await page.getByTestId('single').getAttribute('data-value'));
    expect(value).toBe(await count(page.getByTestId('hits')));
    await page.getByTestId('kind-line').click();
    await expect(chart(page)).toHaveAttribute('data-buckets', '90');
    await page.getByTestId('chart-step').selectOption('5m');
    await expect(chart(page)).toHaveAttribute('data-buckets', '9');
    await page.reload();
    await expect(chart(page)).toHaveAttribute('data-buckets', '9');
  });

  test('numbers have units, a logarithmic axis, and a second axis for another unit', async ({ page }) => {
    await open(page, PERCENTILES);
    await expect(page.getByTestId('chart-unit')).toHaveValue('ms');
    await expect(chart(page)).toHaveAttribute('data-series', '2');
    await page.locator('[data-testid="chart-value"][data-value="n"]').click();
    await expect(chart(page)).toHaveAttribute('data-series', '3');
    await page.getByTestId('chart-log').click();
    await expect(chart(page)).toHaveAttribute('data-log', 'true');
    await page.getByTestId('chart-unit').selectOption('bytes');
    await chart(page).focus();
    await page.keyboard.press('End');
    await expect(page.getByTestId('chart-tip')).toContainText(/KiB| B/);
    await expect(page).toHaveURL(/log=1&unit=bytes&show=p50&show=p99&show=n/);
  });

  test('many series: the biggest are drawn, the others counted and added up', async ({ page, request }) => {
    const query = `${ACCESS} | stats by (_time:5m, client_ip) count() n`;
    const groups = new Set((await rowsOf(request, query)).map((row) => row['client_ip']));
    expect(groups.size).toBeGreaterThan(10);
    await open(page, query);
    await expect(page.getByTestId('series')).toHaveCount(11);
    await expect(page.getByTestId('chart-note').first()).toContainText(`of ${groups.size.toLocaleString('en-GB')} series; the others are added up`);
    await page.getByTestId('chart-top').selectOption('5');
    await expect(page.getByTestId('series')).toHaveCount(6);
  });

  test('percentiles, a histogram and a heat map of a field, in one click', async ({ page }) => {
    for (const [testid, expected] of [['facet-percentiles', 'line'], ['facet-distribution', 'histogram'], ['facet-heat', 'heat']] as const) {
      await open(page, JSON_LINES);
      const field = page.locator('[data-testid="facet"][data-field="duration_ms"]');
      await field.getByTestId(testid).click();
      await expect(kind(page)).toHaveAttribute('data-kind', expected);
      await expectQuery(page, /\| stats .*duration_ms/);
    }
    // A cell leads to its lines: numbers of its row, in the time of its column.
    await page.getByTestId('heat-chart').focus();
    for (let i = 0; i < 10; i++) await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowUp');
    await expect(page.getByTestId('chart-tip')).toBeVisible();
    await page.keyboard.press('Enter');
    await expect.poll(() => new URL(page.url()).searchParams.get('query')).toMatch(/duration_ms:>=[\d.]+ duration_ms:<[\d.]+$/);
    // A box is explained by what its lines have and others with the field have not.
    await page.goBack();
    await page.getByTestId('heat-chart').focus();
    for (const key of ['ArrowRight', 'ArrowUp', 'Shift+ArrowUp', 'Shift+ArrowRight', 'Enter']) await page.keyboard.press(key);
    await expect(page.getByTestId('heat-box')).toBeVisible();
    await expectAccessible(page, [], '[data-testid="heat-box"]');
    await page.getByTestId('box-explain').click();
    await expect(page.getByTestId('differences')).toBeVisible();
    await expectQuery(page, /duration_ms:\* \| differences where \(_time:\[.+\) duration_ms:>=[\d.]+ duration_ms:<[\d.]+\)$/);
  });

  test('a query is built without knowing the language', async ({ page }) => {
    await open(page, JSON_LINES);
    await page.getByTestId('build-toggle').click();
    await page.getByTestId('build-fn').selectOption('p99');
    await page.getByTestId('build-field').fill('duration_ms');
    await page.getByTestId('build-by').first().fill('path');
    await page.getByTestId('build-by').first().blur();
    await page.getByTestId('build-step').selectOption('5m');
    await expect(page.getByTestId('build-text')).toHaveText(`${JSON_LINES} | stats by (_time:5m, path) quantile(0.99, duration_ms) p99`);
    await page.getByTestId('build-run').click();
    await expect(kind(page)).toHaveAttribute('data-kind', 'line');
    await expect(page.getByTestId('series').first()).toContainText(/max [\d.]+ m?s/);
    // It reads what is there, so that one choice can be changed.
    await page.getByTestId('build-fn').selectOption('count');
    await page.getByTestId('build-step').selectOption('');
    await page.getByTestId('build-run').click();
    await expect(kind(page)).toHaveAttribute('data-kind', 'top');
  });

  test('text of logs is data in every chart', async ({ page, request }) => {
    const value = '<img src=x onerror="document.title=1">{a|b}';
    const answer = await request.post('/insert/jsonline?_stream_fields=app_name', {
      data: `${JSON.stringify({ app_name: 'evil', _msg: 'odd', odd: value, took: '5' })}\n`,
      headers: { 'content-type': 'text/plain' },
    });
    expect(answer.ok()).toBe(true);
    await expect.poll(async () => (await latestRowsOf(request, 'odd:* | stats by (odd) count() n')).length).toBeGreaterThan(0);
    for (const shown of ['top', 'pie', 'bars', 'heat', 'single']) {
      await open(page, 'odd:* | stats by (odd) count() n', `&chart=${shown}`, 'range=5m');
      await expect(kind(page)).toContainText(shown === 'heat' ? 'Each column' : '<img src=x');
      expect(await page.locator('main img').count()).toBe(0);
    }
  });

  test('a wrong query and an empty result say so', async ({ page }) => {
    await open(page, 'no_line_has_this_word | stats by (_time:5m) count() n');
    await expect(page.getByTestId('no-lines')).toBeVisible();
    await page.goto(`/?${RANGE}&query=${encodeURIComponent('"open | stats by (_time:5m) count() n')}`);
    await expect(page.getByTestId('query-error')).toBeVisible();
  });
});

async function latestRowsOf(request: APIRequestContext, query: string): Promise<string[]> {
  const answer = await request.get('/select/logsql/query', { params: { query, start: new Date(Date.now() - 300_000).toISOString(), end: new Date().toISOString() } });
  return (await answer.text()).split('\n').filter((line) => line !== '');
}

const VIEWS: Record<string, [query: string, more: string, testid: string]> = {
  line: [PERCENTILES, '', 'time-chart'],
  stacked: [OVER_TIME, '&chart=bars', 'time-chart'],
  'heat map': [`${JSON_LINES} | stats by (_time:5m) histogram(duration_ms) h`, '', 'heat-chart'],
  pie: [`${ACCESS} | stats by (status) count() n`, '&chart=pie', 'pie-chart'],
  'top list': [`${ACCESS} | stats by (path) count() n`, '', 'top-list'],
  'single value': [`${ACCESS} | stats count() n`, '', 'singles'],
};

/** What a view of a table, in axe.spec.ts, does not have. */
const DRAWN = '[data-testid="chart-view"], [data-testid="chart-bar"], [data-testid="build"]';

for (const [device, viewport, colorScheme] of [['desk', { width: 1280, height: 900 }, 'light'], ['phone', { width: 390, height: 844 }, 'dark']] as const) {
  test.describe(`charts on a ${device}`, () => {
    test.use({ viewport, colorScheme });
    for (const [name, [query, more, testid]] of Object.entries(VIEWS)) {
      test(`${name} is accessible`, async ({ page }) => {
        await open(page, query, more);
        await page.getByTestId('build-toggle').click();
        await expect(page.getByTestId('build')).toBeVisible();
        await expect(page.getByTestId(testid)).toBeVisible();
        await expectAccessible(page, [], DRAWN);
        await expectNoSidewaysScrolling(page);
        await page.emulateMedia({ colorScheme: colorScheme === 'light' ? 'dark' : 'light' });
        await expectAccessible(page, ['color-contrast'], DRAWN);
      });
    }
  });
}

test.describe('charts by touch', () => {
  test.use({ viewport: { width: 390, height: 844 }, hasTouch: true });
  test('a finger drawn over the histogram chooses a range', async ({ page }) => {
    await page.goto('/?range=1h');
    await settled(page);
    const box = (await page.getByTestId('histogram-chart').locator('.u-over').boundingBox())!;
    const touch = await page.context().newCDPSession(page);
    const at = (share: number): { x: number; y: number }[] => [{ x: box.x + box.width * share, y: box.y + box.height / 2 }];
    await touch.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: at(0.3) });
    for (const share of [0.35, 0.4, 0.5, 0.6]) await touch.send('Input.dispatchTouchEvent', { type: 'touchMove', touchPoints: at(share) });
    await touch.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] });
    await expect(page).toHaveURL(/from=.*&to=/);
    const params = new URL(page.url()).searchParams;
    const width = Date.parse(params.get('to')!) - Date.parse(params.get('from')!);
    expect(width).toBeGreaterThan(15 * 60_000);
    expect(width).toBeLessThan(22 * 60_000);
  });
  test('a first tap shows a point, a second one leads to its lines', async ({ page }) => {
    await open(page, OVER_TIME, '&chart=bars&only=200');
    await chart(page).scrollIntoViewIfNeeded();
    const box = (await chart(page).locator('.u-over').boundingBox())!;
    await page.touchscreen.tap(box.x + box.width / 2, box.y + box.height - 5);
    await expect(page.getByTestId('chart-tip')).toContainText('200');
    expect(new URL(page.url()).searchParams.get('query')).toBe(OVER_TIME);
    await page.touchscreen.tap(box.x + box.width / 2, box.y + box.height - 5);
    await expect(page).toHaveURL(/status%3A%3D%22200%22/);
  });
});
