// Shared by the tests in the browser.

import AxeBuilder from '@axe-core/playwright';
import { expect, type APIRequestContext, type Locator, type Page } from '@playwright/test';
import { LEVEL_FIELD as LEVEL, TYPE_FIELD as TYPE } from '../src/lib/lines/rows';

export { LEVEL, TYPE };

/** Against a real server, not dev/mock.ts. */
export const real = process.env['LOGINSON_URL'] !== undefined;

/**
 * A query that runs long enough to be seen and cancelled: sixty regular expressions without a literal to look for, which
 * hardly any line matches.
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

/** Puts a text into the query box in place of what it holds, as a paste does. The box has the focus afterwards. */
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

/** The generator sends its hour of history first; a test begins once that has arrived, including the incident. */
export async function historyArrived(request: APIRequestContext): Promise<void> {
  await expect
    .poll(
      async () => {
        // History is sent oldest first: lines of the last seconds are live ones.
        const params = { query: `${TYPE}:="access"`, start: '10s', end: 'now', step: '10s' };
        const answer = await request.get('/select/logsql/hits', { params });
        return answer.ok() && ((await answer.json()) as { hits: unknown[] }).hits.length > 0;
      },
      { timeout: 150_000, message: 'the history of the generator has not arrived' },
    )
    .toBe(true);
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

/** Rows behind the first ones have the same structure; checking all of them takes a minute. */
const REPEATED = 'tbody tr:nth-child(n+8), tbody.line:nth-of-type(n+9), [data-testid="facet"]:nth-child(n+5)';

/** Expects no serious or critical finding; `rules` are the axe-core rules to check, all of them if it is missing. */
export async function expectAccessible(page: Page, rules: string[] = []): Promise<void> {
  // The legacy mode stays in the page instead of opening a second one; only frames of other origins need that, and there
  // are none. Rules that hold are not collected. Both together save a third of the time.
  const axe = new AxeBuilder({ page }).setLegacyMode().options({ resultTypes: ['violations'] }).exclude(REPEATED);
  const { violations } = await (rules.length ? axe.withRules(rules) : axe).analyze();
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
