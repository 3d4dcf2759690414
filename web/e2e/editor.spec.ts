// The query box: completion, help, the place of an error, history, saved queries, and keys.

import type { Page } from '@playwright/test';
import { completions, expect, expectAccessible, expectNoSidewaysScrolling, expectQuery, fillQuery, LEVEL, queryText, settled, test, TYPE, watch } from './common';

test.beforeEach(({ page }) => watch(page));

async function open(page: Page, query = ''): Promise<void> {
  await page.goto(`/?range=1h${query === '' ? '' : `&query=${encodeURIComponent(query)}`}`);
  await settled(page);
  await expect(page.getByTestId('query-input')).toBeVisible();
}

const label = (page: Page) => completions(page).locator('.cm-completionLabel');

test('a query is written by completion alone: field, value, pipe, group, function', async ({ page }) => {
  await open(page);
  await page.getByTestId('query-input').focus();
  await page.keyboard.type('_typ');
  await expect(label(page).first()).toHaveText(TYPE);
  await page.keyboard.press('Tab');
  await expectQuery(page, `${TYPE}:`);
  await expect(label(page).filter({ hasText: 'access' })).toBeVisible();
  await page.keyboard.type('acc');
  await expect(label(page)).toHaveText(['access']);
  await page.keyboard.press('Tab');
  await expectQuery(page, `${TYPE}:="access" `);
  await page.keyboard.type('|');
  await expect(label(page).filter({ hasText: /^stats$/ })).toBeVisible();
  await page.keyboard.type(' sta');
  await expect(label(page).first()).toHaveText('stats');
  await page.keyboard.press('ArrowDown');
  await expect(page.getByTestId('query-help')).toContainText('stats [by');
  await page.keyboard.press('Enter');
  await page.keyboard.type('by (stat');
  await expect(label(page).first()).toHaveText('status');
  await page.keyboard.press('Tab');
  await page.keyboard.type(') cou');
  await expect(label(page).first()).toHaveText('count');
  await page.keyboard.press('Tab');
  await page.keyboard.press('End');
  await page.keyboard.type(' lines');
  await page.keyboard.press('Escape');
  await expectQuery(page, `${TYPE}:="access" | stats by (status) count() lines`);
  await page.getByTestId('query-input').focus();
  await page.keyboard.press('Enter');
  await settled(page);
  await expect(page.getByTestId('chart-view')).toBeVisible();
});

test('Enter runs while completions are open; a stale call for them is aborted', async ({ page }) => {
  await open(page);
  let aborted = 0;
  page.on('requestfailed', (request) => {
    if (request.url().includes('field_values')) aborted++;
  });
  // The server does not answer: only the page can end the call.
  await page.route('**/field_values?*', () => {});
  await page.getByTestId('query-input').focus();
  const called = page.waitForRequest('**/field_values?*');
  await page.keyboard.type('app_name:s');
  await called;
  await page.keyboard.type('sh');
  await expect.poll(() => aborted).toBeGreaterThan(0);
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await fillQuery(page, 'hostnam');
  await expect(completions(page).first()).toBeVisible();
  await page.keyboard.press('Enter');
  await expect(completions(page)).toHaveCount(0);
  await expect(page).toHaveURL(/query=hostnam$/);
});

test('words have colours, and the pointer on a pipe or function shows help', async ({ page }) => {
  await open(page, `${TYPE}:="access" | stats by (status) count() lines`);
  const box = page.getByTestId('query-input');
  await expect(box.locator('.q-field').first()).toHaveText(TYPE);
  await expect(box.locator('.q-text')).toHaveText('"access"');
  await expect(box.locator('.q-pipe')).toHaveText('stats');
  await expect(box.locator('.q-function')).toHaveText('count');
  const colors = await box.locator('.q-field, .q-text, .q-pipe, .q-function').evaluateAll((all) => new Set(all.map((part) => getComputedStyle(part).color)).size);
  expect(colors).toBe(4);
  await box.locator('.q-function').hover();
  await expect(page.getByTestId('query-help')).toContainText('count(<field>');
  await expect(page.getByTestId('query-help')).toContainText('count() n');
  await box.locator('.q-pipe').hover();
  await expect(page.getByTestId('query-help')).toContainText('stats');
});

test('the error of the server is marked at its place until the query is edited', async ({ page }) => {
  await open(page);
  await fillQuery(page, `ä ${LEVEL}:="error" | statz by (status)`);
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('query-error')).toBeVisible();
  const mark = page.getByTestId('query-input').locator('.cm-lintRange-error');
  await expect(mark).toHaveText('statz');
  await mark.hover();
  await expect(page.locator('.cm-diagnostic')).toContainText('statz');
  await page.keyboard.press('End');
  await page.keyboard.type(' ');
  await expect(mark).toHaveCount(0);
});

test('a draft is not taken for the query of the result, and can be undone', async ({ page }) => {
  await open(page, 'error');
  await expect(page.getByTestId('draft-note')).toHaveCount(0);
  await page.getByTestId('query-input').focus();
  await page.keyboard.press('End');
  await page.keyboard.type(' disk');
  await expect(page.getByTestId('draft-note')).toHaveText('of error, not of the edited query');
  await expect(page.getByTestId('run')).toHaveAttribute('data-edited', 'true');
  await page.getByTestId('draft-discard').click();
  await expectQuery(page, 'error');
  await expect(page.getByTestId('draft-note')).toHaveCount(0);
});

test('Back shows the query of the lines, and what was typed beside a click', async ({ page }) => {
  await open(page, 'error');
  await fillQuery(page, 'disk');
  await page.keyboard.press('Enter');
  await settled(page);
  await page.goBack();
  await expectQuery(page, 'error');
  await expect(page.getByTestId('draft-note')).toHaveCount(0);
  await page.goForward();
  await expectQuery(page, 'disk');
  await expect(page.getByTestId('draft-note')).toHaveCount(0);
});

test('arrows walk through the history, the menu lists it, and it survives a reload', async ({ page }) => {
  await open(page);
  for (const query of ['first_one', 'second_one']) {
    await fillQuery(page, query);
    await page.keyboard.press('Enter');
    await settled(page);
  }
  await page.goto('/?range=1h');
  await settled(page);
  await page.getByTestId('query-input').focus();
  await page.keyboard.press('ArrowUp');
  await expectQuery(page, 'second_one');
  await page.keyboard.press('ArrowUp');
  await expectQuery(page, 'first_one');
  await page.keyboard.press('ArrowUp');
  await expectQuery(page, 'first_one');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await expectQuery(page, '');
  // In a draft the arrow is the arrow.
  await page.keyboard.type('draft');
  await page.keyboard.press('ArrowUp');
  await expectQuery(page, 'draft');
  await page.getByTestId('query-menu-toggle').click();
  await expect(page.getByTestId('recent-query')).toHaveText(['second_one', 'first_one']);
  await page.getByTestId('recent-query').last().click();
  await expect(page).toHaveURL(/query=first_one/);
  await expectQuery(page, 'first_one');
});

test('a saved query is there for another browser, and can be deleted', async ({ page, browser }) => {
  const name = `Errors ${Date.now()}`;
  await open(page);
  await fillQuery(page, `${LEVEL}:="error"`);
  await page.getByTestId('query-menu-toggle').click();
  await page.getByTestId('query-name').fill(name);
  await page.getByTestId('query-save').click();
  await expect(page.getByTestId('saved-query').filter({ hasText: name })).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('query-menu')).toHaveCount(0);

  const other = await (await browser.newContext()).newPage();
  await other.goto(page.url());
  await other.getByTestId('query-menu-toggle').click();
  await other.getByTestId('saved-query').filter({ hasText: name }).click();
  await expectQuery(other, `${LEVEL}:="error"`);
  await settled(other);
  // It is no dashboard.
  await other.getByTestId('view-dashboards').click();
  await expect(other.getByTestId('dashboards')).toBeVisible();
  await expect(other.getByText('Saved queries', { exact: true })).toHaveCount(0);
  await other.goBack();
  await other.getByTestId('query-menu-toggle').click();
  const entry = other.locator('li').filter({ hasText: name });
  await entry.getByTestId('saved-remove').click();
  await expect(entry).toHaveCount(0);
  await other.context().close();
});

test('two browsers that save at once both keep their query', async ({ page, browser }) => {
  const stamp = Date.now();
  await open(page);
  const other = await (await browser.newContext()).newPage();
  await other.goto(page.url());
  for (const one of [page, other]) {
    await fillQuery(one, 'error');
    const loaded = one.waitForResponse((response) => response.url().includes('/dashboards/_saved_queries'));
    await one.getByTestId('query-menu-toggle').click();
    await loaded;
  }
  for (const [at, one] of [page, other].entries()) {
    await one.getByTestId('query-name').fill(`Both ${stamp} ${at}`);
    await one.getByTestId('query-save').click();
    await expect(one.getByTestId('saved-query').filter({ hasText: `Both ${stamp} ${at}` })).toBeVisible();
  }
  await expect(other.getByTestId('saved-query').filter({ hasText: `Both ${stamp}` })).toHaveCount(2);
  for (const at of [0, 1]) await other.locator('li').filter({ hasText: `Both ${stamp} ${at}` }).getByTestId('saved-remove').click();
  await expect(other.getByTestId('saved-query').filter({ hasText: `Both ${stamp}` })).toHaveCount(0);
  await other.context().close();
});

test('the box grows to eight lines; Shift+Enter makes them, Tab leaves the box, Escape closes the list first', async ({ page }) => {
  await open(page);
  const box = page.getByTestId('query-editor');
  const height = async (): Promise<number> => (await box.boundingBox())!.height;
  const one = await height();
  await fillQuery(page, 'error');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('| limit 5');
  await page.keyboard.press('Escape');
  await page.getByTestId('query-input').focus();
  await expectQuery(page, 'error\n| limit 5');
  await expect.poll(height).toBeGreaterThan(one + 10);
  await page.keyboard.press('Enter');
  await settled(page);
  await expect(page.getByTestId('query-error')).toHaveCount(0);
  await expect(page).toHaveURL(/error%0A%7C\+limit\+5/);
  await fillQuery(page, Array.from({ length: 30 }, (_, at) => `word${at}`).join('\n'));
  await expect.poll(height).toBeLessThanOrEqual(8 * 18 + 14);
  await fillQuery(page, 'hostn');
  await expect(completions(page).first()).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(completions(page)).toHaveCount(0);
  await expect(page.getByTestId('query-input')).toBeFocused();
  await page.keyboard.press('Tab');
  await expect(page.getByTestId('query-input')).not.toBeFocused();
  await expect(page.getByTestId('query-menu-toggle')).toBeFocused();
  await expectQuery(page, 'hostn');
  // Keys of the page mean nothing within the box.
  await page.keyboard.press('/');
  await expect(page.getByTestId('query-input')).toBeFocused();
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type('/t?j');
  await expectQuery(page, '/t?j');
  // Text over a selection that has colours: the policy would forbid the style that the browser keeps.
  await fillQuery(page, '_type:="access" | stats count()');
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.insertText('new');
  await page.keyboard.type(' text');
  await expectQuery(page, 'new text');
  await page.keyboard.press('ControlOrMeta+Z');
  await expectQuery(page, '_type:="access" | stats count()');
  await expect(page.getByTestId('help')).toHaveCount(0);
});

test('the first rows do not wait for the editor', async ({ page }) => {
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  await open(page);
  const at = (path: RegExp): number => asked.findIndex((one) => path.test(one));
  expect(at(/queryEditor/)).toBeGreaterThan(at(/logsql\/query$/));
  expect(at(/queryEditor/)).toBeGreaterThan(at(/logsql\/hits$/));
});

test('before the editor is loaded, and without it, a plain box does its job', async ({ page }) => {
  await page.route('**/assets/queryEditor*', (route) => route.abort());
  await page.goto('/?range=1h');
  await settled(page);
  const plain = page.getByTestId('query-plain');
  await plain.fill(`${TYPE}:="access"`);
  await plain.press('Enter');
  await expect(page).toHaveURL(/query=_type/);
  await settled(page);
  await expect(page.getByTestId('line-row').first()).toBeVisible();
});

for (const [name, viewport] of Object.entries({ desk: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } })) {
  test(`no serious finding with open list, help and menu: ${name}`, async ({ page }) => {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme: 'light' });
    await open(page, `${TYPE}:="access" took:>1.5s # why | x\n| stats by (status) count() lines`);
    const box = '[data-testid="query-editor"]';
    await expectAccessible(page, [], box);
    await page.emulateMedia({ colorScheme: 'dark' });
    await expectAccessible(page, ['color-contrast'], box);
    await fillQuery(page, '* | sta');
    await expect(completions(page).first()).toBeVisible();
    await page.keyboard.press('ArrowDown');
    await expect(page.getByTestId('query-help')).toBeVisible();
    await expectAccessible(page, [], box);
    await expectNoSidewaysScrolling(page);
    const list = (await page.locator('.cm-tooltip-autocomplete').boundingBox())!;
    expect(list.x).toBeGreaterThanOrEqual(0);
    expect(list.x + list.width).toBeLessThanOrEqual(viewport.width);
    await page.keyboard.press('Escape');
    await page.keyboard.press('Enter');
    await page.getByTestId('query-menu-toggle').click();
    await expect(page.getByTestId('recent-query').first()).toBeVisible();
    await expectAccessible(page, [], '[data-testid="query-menu"]');
    await expectNoSidewaysScrolling(page);
    expect(await queryText(page)).not.toBe('');
  });
}

test("a query in Lucene's syntax is translated by a click, and never without", async ({ page }) => {
  // LogsQL takes it as a field of that name, which no line has.
  const typed = '_exists_:hostname';
  await open(page, typed);
  await expect(page.getByTestId('hits')).toHaveText('0');
  await expect(page.getByTestId('lucene-logsql')).toHaveText('hostname:*');
  await expectQuery(page, typed);
  await expectAccessible(page);
  await page.getByTestId('lucene-run').click();
  await settled(page);
  await expectQuery(page, 'hostname:*');
  await expect(page.getByTestId('hits')).not.toHaveText('0');
  await expect(page.getByTestId('lucene-ran')).toContainText(typed);
  await expectNoSidewaysScrolling(page);
  await page.getByTestId('lucene-ran').getByRole('button').click();
  await settled(page);
  await expectQuery(page, typed);
  await expect(page.getByTestId('lucene-offer')).toBeVisible();
});
