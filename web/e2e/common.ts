// Shared by the tests in the browser.

import AxeBuilder from '@axe-core/playwright';
import { expect, test as base, type APIRequestContext, type Locator, type Page } from '@playwright/test';
import { setTimeout as pause } from 'node:timers/promises';
import { LEVEL_FIELD as LEVEL, TYPE_FIELD as TYPE } from '../src/lib/lines/rows';
import { real, startSecured, startServer, startWithProvider } from './servers';

export { expect } from '@playwright/test';
export { LEVEL, real, TYPE };

/** A server takes as long as it takes to start and to receive its history. */
const START_MS = 1_800_000;

/**
 * A test with the server of its worker behind `page` and `request`. All servers are fixtures of
 * all tests, because another set of fixtures would be another worker, with servers of its own; one
 * that no test of a worker asks for is not started.
 */
export const test = base.extend<object, { serverUrl: string; securedUrl: string; providerUrl: string }>({
  serverUrl: [
    // Playwright reads the names of fixtures from a pattern, also where there are none.
    async ({}, use) => {
      const server = await startServer();
      await historyArrived(server.url);
      await use(server.url);
      await server.stop();
    },
    { scope: 'worker', timeout: START_MS },
  ],
  securedUrl: [
    async ({}, use) => {
      const server = await startSecured();
      await use(server.url);
      await server.stop();
    },
    { scope: 'worker', timeout: START_MS },
  ],
  providerUrl: [
    async ({}, use) => {
      const server = await startWithProvider();
      await use(server.url);
      await server.stop();
    },
    { scope: 'worker', timeout: START_MS },
  ],
  baseURL: async ({ serverUrl }, use) => use(serverUrl),
  page: async ({ page }, use) => {
    await use(page);
    // The page goes on asking; a route that waits for the real answer then would fail the test.
    await page.unrouteAll({ behavior: 'ignoreErrors' });
  },
});

/**
 * The generator sends its hour of history oldest first, so lines of the last seconds are live ones.
 */
async function historyArrived(url: string): Promise<void> {
  const params = new URLSearchParams({ query: `${TYPE}:="access"`, start: '10s', end: 'now', step: '10s' });
  for (;;) {
    const answer = await fetch(`${url}/select/logsql/hits?${params}`);
    if (answer.ok && ((await answer.json()) as { hits: unknown[] }).hits.length > 0) return;
    await pause(200);
  }
}

/**
 * A query that runs long enough to be seen and cancelled: sixty regular expressions without a
 * literal to look for, which hardly any line matches.
 */
export const SLOW_QUERY =
  process.env['LOGINSON_SLOW_QUERY'] ??
  (real ? Array.from({ length: 60 }, (_, i) => `_msg:~"[a-m].{30}[n-z].{${i + 20}}[0-9].{30}[A-Z]{9}"`).join(' or ') : 'slowly');

export async function count(locator: Locator): Promise<number> {
  return Number((await locator.innerText()).replaceAll(',', ''));
}

/** The page shows a finished search: the hits are there and nothing runs. */
export async function settled(page: Page): Promise<void> {
  await expect(page.getByTestId('hits')).toBeVisible();
  await expect(page.getByTestId('cancel')).toBeDisabled();
}

/** The text in the query box, whose editor shows each line as an element. */
export async function queryText(page: Page): Promise<string> {
  return page.getByTestId('query-input').evaluate((box) => (box.querySelector('.cm-placeholder') ? '' : [...box.querySelectorAll('.cm-line')].map((line) => line.textContent).join('\n')));
}

export async function expectQuery(page: Page, expected: string | RegExp): Promise<void> {
  const text = expect.poll(() => queryText(page), { message: 'the text in the query box' });
  await (typeof expected === 'string' ? text.toBe(expected) : text.toMatch(expected));
}

/**
 * Puts a text into the query box in place of what it holds, as a paste does. The box has the focus
 * afterwards.
 */
export async function fillQuery(page: Page, text: string): Promise<void> {
  await page.getByTestId('query-input').focus();
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.press('Delete');
  await page.keyboard.insertText(text);
  await expectQuery(page, text);
}

/** The open list of completions of the query box. */
export function completions(page: Page): Locator {
  return page.locator('.cm-tooltip-autocomplete li[role="option"]');
}

export async function post(request: APIRequestContext, fields: Record<string, string>): Promise<void> {
  const answer = await request.post('/insert/jsonline?_stream_fields=app_name', { data: `${JSON.stringify(fields)}\n`, headers: { 'content-type': 'text/plain' } });
  expect(answer.ok(), await answer.text()).toBe(true);
}

/**
 * A range of an hour, in which a page shows the same whenever it asks: lines of the last minutes may
 * still arrive.
 */
export function settledRange(): string {
  const end = Date.now() - 5 * 60_000;
  return new URLSearchParams({ from: new Date(end - 3_600_000).toISOString(), to: new Date(end).toISOString() }).toString();
}

/** Parameters for the time up to now. */
export function lastMinutes(minutes: number): string {
  const end = Date.now();
  return new URLSearchParams({ start: new Date(end - minutes * 60_000).toISOString(), end: new Date(end).toISOString() }).toString();
}

/** Opens the detail of a line: where a click does nothing else. */
export async function expand(row: Locator): Promise<void> {
  await row.locator('td.time').click({ position: { x: 6, y: 6 } });
}

// ---- charts over time ----

export interface Place {
  x: number;
  y: number;
}

/** Where an instant is in a chart over time, from the left of the window. */
async function instantAt(chart: Locator, ms: number): Promise<number> {
  const [from, to] = await Promise.all(['data-from', 'data-to'].map(async (name) => Number(await chart.getAttribute(name))));
  const plot = (await chart.locator('.u-over').boundingBox())!;
  return plot.x + (plot.width * (ms - (from as number))) / ((to as number) - (from as number));
}

/**
 * The places in a column of a chart's canvas that are drawn in a colour, from the top: what an eye
 * would see there. `x` is that of the window, the colour one of CSS.
 */
async function drawnIn(chart: Locator, x: number, color: string): Promise<Place[]> {
  return chart.locator('canvas').evaluate(
    (element, { x, color }) => {
      const canvas = element as HTMLCanvasElement;
      const box = canvas.getBoundingClientRect();
      const scale = canvas.width / box.width;
      const pixel = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d')!;
      pixel.fillStyle = color;
      pixel.fillRect(0, 0, 1, 1);
      const wanted = pixel.getImageData(0, 0, 1, 1).data;
      const { data } = canvas.getContext('2d')!.getImageData(Math.floor((x - box.left) * scale), 0, 1, canvas.height);
      const isWanted = (row: number): boolean => [0, 1, 2].every((part) => Math.abs(data[row * 4 + part]! - wanted[part]!) <= 12) && data[row * 4 + 3]! > 200;
      return Array.from({ length: canvas.height }, (_, row) => row).filter(isWanted).map((row) => ({ x, y: box.top + (row + 0.5) / scale }));
    },
    { x, color },
  );
}

/** The colour of an entry of a legend. */
async function colorOf(entry: Locator): Promise<string> {
  return entry.locator('.dot').evaluate((dot) => getComputedStyle(dot).backgroundColor);
}

/**
 * The middle of what a chart draws of a bar: in the column of the bar's time, where the colour of
 * its series is. `bar` is a cell of the chart's table, `entry` that of its legend.
 */
export async function drawnBar(chart: Locator, bar: Locator, entry: Locator): Promise<Place> {
  const [from, to, buckets] = await Promise.all(['data-from', 'data-to', 'data-buckets'].map(async (name) => Number(await chart.getAttribute(name))));
  const middle = Number(await bar.getAttribute('data-from')) + ((to as number) - (from as number)) / (buckets as number) / 2;
  const color = await colorOf(entry);
  await chart.scrollIntoViewIfNeeded();
  let places: Place[] = [];
  await expect.poll(async () => (places = await drawnIn(chart, await instantAt(chart, middle), color)).length, { message: 'the bar is not drawn' }).toBeGreaterThan(0);
  return places[places.length >> 1] as Place;
}

/** The lowest place of a mark of time, in the colour of the style sheet's custom property. */
export async function drawnMark(page: Page, chart: Locator, mark: Locator, property: string): Promise<Place> {
  const color = await page.evaluate((name) => getComputedStyle(document.documentElement).getPropertyValue(name), property);
  let places: Place[] = [];
  await expect
    .poll(async () => (places = await drawnIn(chart, await instantAt(chart, Number(await mark.getAttribute('data-ms'))), color)).length, { message: 'the mark is not drawn' })
    .toBeGreaterThan(0);
  return places.at(-1) as Place;
}

/** Collects errors of the page that no test would notice otherwise. */
export function watch(page: Page): void {
  page.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) throw new Error(message.text());
  });
  page.on('pageerror', (error) => {
    throw error;
  });
}

/** An answer of the server with another status than the real one. */
export async function changeStatus(page: Page, change: (status: Record<string, unknown>) => void): Promise<void> {
  await page.route('**/api/v1/status', async (route) => {
    const answer = await route.fetch();
    const status = (await answer.json()) as Record<string, unknown>;
    change(status);
    await route.fulfill({ response: answer, json: status });
  });
}

/** Rows, entries and cards behind the first ones have the same structure; checking all takes a minute. */
const REPEATED = 'tbody tr:nth-child(n+8), tbody.line:nth-of-type(n+9), [data-testid="facet"]:nth-child(n+5), main li:nth-child(n+9), [data-testid="summary-card"]:nth-child(n+4)';

/** Makes what repeats itself invisible, and so no subject of most rules, or visible again. It keeps its place. */
function setRepeated(page: Page, visibility: 'hidden' | ''): Promise<void> {
  return page.evaluate(
    ([selector, visibility]) => {
      for (const element of document.querySelectorAll<HTMLElement>(selector)) element.style.visibility = visibility;
    },
    [REPEATED, visibility] as const,
  );
}

/**
 * Expects no serious or critical finding; `rules` are the axe-core rules to check, all of them if
 * it is missing. `part` is the selector of what alone is checked.
 */
export async function expectAccessible(page: Page, rules: string[] = [], part = 'html'): Promise<void> {
  // The legacy mode stays in the page instead of opening a second one; only frames of other origins
  // need that, and there are none. Rules that hold are not collected. Both together save a third of
  // the time. Most of the rest would go into telling what is excluded: a hundred rows are compared
  // with every element, for every rule. Hidden ones are not.
  const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ['violations'] }).include(part);
  await setRepeated(page, 'hidden');
  const { violations } = await (rules.length ? axe.withRules(rules) : axe).analyze();
  await setRepeated(page, '');
  const grave = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  const told = grave.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 5).map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ''}`).join('\n  ')}`);
  expect(told).toEqual([]);
}

export async function expectNoSidewaysScrolling(page: Page): Promise<void> {
  const wider = await page.evaluate(() => {
    const all = [document.documentElement, document.querySelector('main')!];
    return all.some((element) => element.scrollWidth > element.clientWidth);
  });
  expect(wider, 'the page scrolls sideways').toBe(false);
}
