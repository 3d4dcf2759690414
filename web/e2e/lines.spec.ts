// Lines that people can read: fields beside the message, colours, links, marks; columns; long lists.

import type { APIRequestContext, Page } from '@playwright/test';
import { count, expand, expect, expectAccessible, expectQuery, post, real, settled, test, watch } from './common';

test.beforeEach(({ page }) => watch(page));

const REQUESTS = 30;

/** Posts lines of a service whose message is always the same; returns the word that finds them. */
async function postRequests(request: APIRequestContext, message = 'request done'): Promise<string> {
  const token = `run${Date.now()}`;
  const lines = Array.from({ length: REQUESTS }, (_, i) => ({
    _time: new Date(Date.now() - (REQUESTS - i) * 1000).toISOString(),
    _msg: `${message} ${token}`,
    level: 'info',
    hostname: 'shop1',
    app_name: 'shop',
    path: i % 3 === 0 ? '/api/checkout' : '/api/cart',
    status: '200',
    duration_ms: i % 3 === 0 ? String(900 + i) : String(10 + i),
    pool: 'db1:5432/shop',
    trace_id: `t${i}x${token}`,
  }));
  const answer = await request.post('/insert/jsonline?_stream_fields=app_name', {
    data: lines.map((line) => `${JSON.stringify(line)}\n`).join(''),
    headers: { 'content-type': 'text/plain' },
  });
  expect(answer.ok(), await answer.text()).toBe(true);
  await expect
    .poll(async () => {
      const found = await request.get('/select/logsql/query', { params: { query: token, limit: 100 } });
      return (await found.text()).trim().split('\n').length;
    })
    .toBe(REQUESTS);
  return token;
}

async function open(page: Page, query: string, more = ''): Promise<void> {
  await page.goto(`/?range=1h&query=${encodeURIComponent(query)}${more}`);
  await settled(page);
  await expect(page.getByTestId('line-row').first()).toBeVisible();
}

test('an answer that lacks damaged lines says so, until one is whole', async ({ page, request }) => {
  const token = await postRequests(request);
  const sentence = '41 stored lines were not searched, because they are damaged: block 3 of segment 7';
  let damaged = true;
  await page.route(/\/select\/logsql\//, async (route) => {
    const answer = await route.fetch();
    const headers = { ...answer.headers(), ...(damaged ? { 'x-loginson-missing-lines': sentence } : {}) };
    await route.fulfill({ response: answer, headers });
  });
  await open(page, token);
  await expect(page.getByTestId('missing-lines')).toHaveText(`Lines are missing here: ${sentence}.`);
  damaged = false;
  await page.reload();
  await expect(page.getByTestId('line-row').first()).toBeVisible();
  await expect(page.getByTestId('missing-lines')).toHaveCount(0);
});

test('each engine of a cluster that is away has a banner of its own', async ({ page, request }) => {
  const token = await postRequests(request);
  const notices = [
    { what: 'log', text: 'Kafka does not tell what it has of partitions 0 to 5 <b>' },
    { what: 'catalog', text: 'the catalog does not answer' },
  ];
  let away = notices;
  await page.route(/\/select\/logsql\//, async (route) => {
    const answer = await route.fetch();
    const missing: Record<string, string> = away.length > 0 ? { 'x-loginson-missing-lines': 'the same in other words' } : {};
    await route.fulfill({ response: answer, headers: { ...answer.headers(), ...missing, 'x-loginson-notices': JSON.stringify(away) } });
  });
  await open(page, token);
  await expect(page.getByTestId('notice-log')).toContainText('The newest lines may be missing: Kafka does not tell what it has of partitions 0 to 5 <b>.');
  await expect(page.getByTestId('notice-catalog')).toContainText('older state of the catalog');
  // The same is not said twice.
  await expect(page.getByTestId('missing-lines')).toHaveCount(0);
  away = [];
  await page.reload();
  await expect(page.getByTestId('line-row').first()).toBeVisible();
  await expect(page.getByTestId('notice-log')).toHaveCount(0);
});

const chip = (page: Page, name: string) => page.getByTestId('line-row').first().locator(`[data-testid="chip"][data-value-of="${name}"]`);

test('fields that tell lines apart stand beside the message, and a click filters by them', async ({ page, request }) => {
  const token = await postRequests(request);
  await open(page, token);
  const row = page.getByTestId('line-row').first();
  await expect(chip(page, 'path')).toHaveText('path=/api/cart');
  await expect(chip(page, 'duration_ms')).toHaveText(/^duration_ms=\d+ ms$/);
  // The same in every line: only in the detail.
  await expect(chip(page, 'pool')).toHaveCount(0);
  await expect(chip(page, 'status')).toHaveCount(0);
  await expand(row);
  await expect(page.locator('[data-testid="field-row"][data-field="pool"]')).toContainText('db1:5432/shop');

  await chip(page, 'path').click();
  await expectQuery(page, `${token} path:="/api/cart"`);
  await expect.poll(() => count(page.getByTestId('hits'))).toBe((REQUESTS * 2) / 3);
  await page.goBack();
  await expect.poll(() => count(page.getByTestId('hits'))).toBe(REQUESTS);
  await chip(page, 'path').click({ modifiers: ['Alt'] });
  await expectQuery(page, `${token} NOT path:="/api/cart"`);
  await expect.poll(() => count(page.getByTestId('hits'))).toBe(REQUESTS / 3);
});

test('numbers are rounded with their unit, hidden characters are marked, and a trace is one line', async ({ page, request }) => {
  const token = `readable${Date.now()}`;
  const trace = `${token} failed: no stock\n\tat java.util.Optional.get(Optional.java:143)\n\tat com.shop.Cart.pay(Cart.java:88)\n\tat java.lang.Thread.run(Thread.java:1)`;
  await post(request, { _msg: trace, app_name: 'shop', took_ms: '1234.5678', user: 'ad\u200bmin' });
  await open(page, token);
  const row = page.getByTestId('line-row').first();
  await expect(row.getByTestId('line-message')).toHaveText(`${token} failed: no stock ⤷ at com.shop.Cart.pay(Cart.java:88) (+2 frames)`);
  await expect(chip(page, 'took_ms')).toHaveText('took_ms=1.23 s');
  await expect(chip(page, 'user')).toHaveText('user=ad‹U+200B›min');
  // A click filters by what is stored, and the detail has all of it.
  await chip(page, 'took_ms').click();
  await expectQuery(page, `${token} took_ms:="1234.5678"`);
  await settled(page);
  await expand(row);
  await expect(page.locator('[data-testid="field-row"][data-field="_msg"]')).toContainText('Thread.java:1');
  await post(request, { _msg: `${token}x pay\u202efdp.exe`, app_name: 'shop' });
  await open(page, `${token}x`);
  await expect(page.getByTestId('line-row').first().getByTestId('unseen')).toHaveText('U+202E');
});

test('a pinned field stands first in every line, in the link, and in a saved view with its columns', async ({ page, request }) => {
  const token = await postRequests(request);
  await open(page, token);
  await expand(page.getByTestId('line-row').first());
  await page.locator('[data-testid="field-row"][data-field="pool"]').getByTestId('pin-field').click();
  await page.locator('[data-testid="field-row"][data-field="status"]').getByTestId('as-column').click();
  await expect(page).toHaveURL(/pin=pool/);
  await expect(page.getByTestId('line-row').nth(1).getByTestId('chip').first()).toHaveText('pool=db1:5432/shop');
  await expect(section(page, 'pool').first()).toBeVisible();
  const name = `view ${token}`;
  await page.getByTestId('query-menu-toggle').click();
  await page.getByTestId('query-name').fill(name);
  await page.getByTestId('query-save').click();
  await expect(page.getByRole('status').filter({ hasText: 'Saved' })).toBeVisible();

  await page.goto('/?range=1h&cols=_level');
  await settled(page);
  await page.getByTestId('query-menu-toggle').click();
  await page.getByTestId('saved-query').filter({ hasText: name }).click();
  await expectQuery(page, token);
  await expect(page).toHaveURL(/cols=[^&]*status[^&]*&pin=pool/);
  await expect(page.getByTestId('line-row').first().getByTestId('chip').first()).toHaveText('pool=db1:5432/shop');
});

test('a marked part of a message becomes a field of this view, or a rule', async ({ page, request }) => {
  const token = `mark${Date.now()}`;
  for (const order of ['4711', '4712', '4713']) await post(request, { _msg: `${token} order ${order} of ann was paid`, app_name: 'shop' });
  await open(page, token);
  await expect(page.getByTestId('line-row')).toHaveCount(3);
  // Marked as by a pointer: the number behind “order ”.
  await page.getByTestId('line-message').first().evaluate((element) => {
    const row = element.closest('tr')!;
    row.dispatchEvent(new PointerEvent('pointerdown', { bubbles: true }));
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      const at = /order \d/.exec(node.textContent ?? '')?.index ?? -1;
      if (at < 0) continue;
      getSelection()!.setBaseAndExtent(node, at + 6, node, at + 10);
      break;
    }
    row.dispatchEvent(new PointerEvent('pointerup', { bubbles: true }));
  });
  await page.getByTestId('make-field').click();
  const dialog = page.getByTestId('field-dialog');
  await expect(dialog.getByTestId('field-part')).toHaveValue(/^471\d$/);
  await expect(dialog.getByTestId('field-before')).toHaveValue('order ');
  await expect(dialog.getByTestId('field-tried')).toContainText('3 of 3 lines shown here have it');
  await dialog.getByTestId('field-name').fill('order_id');
  await expectAccessible(page, [], '[data-testid="field-dialog"]');
  await dialog.locator('summary').click();
  await expect(dialog.getByTestId('field-rule')).toContainText('filter = "app_name:=\\"shop\\" *\\"order\\"*"');
  if (real) {
    await dialog.getByTestId('field-rule-try').click();
    await expect(dialog.getByTestId('field-rule-tried')).toContainText('3 of the newest 3 lines would get the field');
  }
  await dialog.getByTestId('field-use').click();
  await expectQuery(page, `${token} | extract "order <plain:order_id> " from _msg keep_original_fields`);
  await expect(page).toHaveURL(/pin=order_id/);
  // The stand-in knows no pipes.
  if (real) await expect(chip(page, 'order_id')).toHaveText(/^order_id=471\d$/);
  // By keyboard the part is typed.
  await open(page, token);
  await expand(page.getByTestId('line-row').first());
  await page.getByTestId('new-field').click();
  await dialog.getByTestId('field-part').fill('ann');
  await expect(dialog.getByTestId('field-before')).toHaveValue('of ');
  await page.keyboard.press('Escape');
  await expect(dialog).toHaveCount(0);
});

test('what is typed into a search is never taken for a key of the page', async ({ page, request }) => {
  const token = await postRequests(request);
  // Whoever opens the page types: the box has the focus.
  await page.goto('/?range=1h');
  await settled(page);
  await page.keyboard.type('timeout');
  await expectQuery(page, 'timeout');
  await expect(page).not.toHaveURL(/tail=1/);
  // A link is read: keys are those of the page.
  await open(page, token);
  await section(page, 'trace_id').locator('.name').click();
  await section(page, 'trace_id').getByTestId('facet-search').click();
  await expect(page.getByTestId('facet-typed')).toBeFocused();
  await page.keyboard.type('tart');
  await expect(page.getByTestId('facet-typed')).toHaveValue('tart');
  await expect(page.getByTestId('tail-toggle')).toHaveAttribute('aria-pressed', 'false');
});

test('counts of an earlier query are grey until the new ones are there', async ({ page, request }) => {
  const token = await postRequests(request);
  await open(page, token);
  const facets = page.getByTestId('facets');
  await expect(facets).toHaveAttribute('data-stale', 'false');
  await expect(section(page, 'path')).toBeVisible();
  let answer = (): void => {};
  const held = new Promise<void>((done) => (answer = done));
  await page.route('**/select/logsql/facets*', async (route) => {
    await held;
    await route.continue();
  });
  await section(page, 'path').getByTestId('facet-value').first().click();
  await expect(facets).toHaveAttribute('data-stale', 'true');
  await expect(section(page, 'path').locator('.count').first()).toHaveCSS('opacity', '0.35');
  answer();
  await expect(facets).toHaveAttribute('data-stale', 'false');
});

test('a long list of values opens', async ({ page, request }) => {
  const token = `hosts${Date.now()}`;
  const lines = Array.from({ length: 60 }, (_, i) => ({ _msg: `${token} up`, app_name: 'shop', hostname: `h${i % 12}` }));
  const answer = await request.post('/insert/jsonline?_stream_fields=app_name', { data: lines.map((line) => `${JSON.stringify(line)}\n`).join(''), headers: { 'content-type': 'text/plain' } });
  expect(answer.ok(), await answer.text()).toBe(true);
  await open(page, token);
  const values = section(page, 'hostname').getByTestId('facet-value');
  await expect(values).toHaveCount(8);
  await section(page, 'hostname').getByTestId('facet-more').click();
  await expect(values).toHaveCount(12);
  await section(page, 'hostname').getByTestId('facet-more').click();
  await expect(values).toHaveCount(8);
});

test('the menu of a value filters, excludes and copies, also by keys', async ({ page, request }) => {
  const token = await postRequests(request);
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await open(page, token);
  const menu = page.getByTestId('value-menu');
  await chip(page, 'path').click({ button: 'right' });
  await expect(menu).toContainText('path=/api/cart');
  await expect(menu.getByRole('menuitem').first()).toBeFocused();
  await page.keyboard.press('Escape');
  await expect(menu).toHaveCount(0);
  await chip(page, 'path').click({ button: 'right' });
  await menu.getByTestId('value-copy').click();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe('/api/cart');
  await chip(page, 'path').click({ button: 'right' });
  await expect(menu.getByRole('menuitem').first()).toBeFocused();
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await expectQuery(page, `${token} NOT path:="/api/cart"`);
});

test('colours, links and marks are shown, and are never markup', async ({ page, request }) => {
  const token = await postRequests(request, '\x1b[31mfailed\x1b[0m at https://wiki.example/pool?a=1&b=<b>x</b> <img src=x onerror="document.title=1">');
  await open(page, `${token} path:="/api/cart"`);
  const message = page.getByTestId('line-row').first().getByTestId('line-message');
  await expect(message).toHaveText(`failed at https://wiki.example/pool?a=1&b=<b>x</b> <img src=x onerror="document.title=1"> ${token}`);
  await expect(message.locator('.ansi-red')).toHaveText('failed');
  await expect(message.getByTestId('mark')).toHaveText(token);
  await expect(chip(page, 'path')).toHaveCount(0);
  const link = message.getByTestId('line-link');
  await expect(link).toHaveAttribute('href', 'https://wiki.example/pool?a=1&b=');
  await expect(link).toHaveAttribute('rel', 'noopener noreferrer');
  await expect(link).toHaveText('https://wiki.example/pool?a=1&b=');
  expect(await message.locator('img, b').count()).toBe(0);
});

test('a time that the message repeats is not shown twice', async ({ page, request }) => {
  const token = `time${Date.now()}`;
  const now = new Date();
  const line = { _time: now.toISOString(), _msg: `${now.toISOString()} ${token} started`, app_name: 'shop' };
  const answer = await request.post('/insert/jsonline?_stream_fields=app_name', { data: `${JSON.stringify(line)}\n`, headers: { 'content-type': 'text/plain' } });
  expect(answer.ok()).toBe(true);
  await open(page, token);
  await expect(page.getByTestId('line-message')).toHaveText(`${token} started`);
  await expand(page.getByTestId('line-row'));
  await expect(page.locator('[data-testid="field-row"][data-field="_msg"]')).toContainText(line._msg);
});

test('a value inside the message filters too', async ({ page, request }) => {
  const token = `inside${Date.now()}`;
  const line = { _msg: `${token} for user=alice from 10.0.0.7`, app_name: 'shop', user: 'alice', client_ip: '10.0.0.7' };
  const answer = await request.post('/insert/jsonline?_stream_fields=app_name', { data: `${JSON.stringify(line)}\n`, headers: { 'content-type': 'text/plain' } });
  expect(answer.ok()).toBe(true);
  await open(page, token);
  await expect(page.getByTestId('chip')).toHaveCount(0);
  // A click on a message expands the line, wherever it is.
  const value = page.locator('[data-testid="line-value"][data-value-of="client_ip"]');
  await value.click();
  await expect(page.getByTestId('line-detail')).toBeVisible();
  await value.click({ button: 'right' });
  await page.getByTestId('value-only').click();
  await expectQuery(page, `${token} client_ip:="10.0.0.7"`);
});

const heads = (page: Page) => page.getByTestId('column-head');

test('a field becomes a column that is moved, resized and removed, and the link shows the same', async ({ page, request, browser, baseURL }) => {
  const token = await postRequests(request);
  await open(page, token);
  await chip(page, 'path').click({ button: 'right' });
  await page.getByTestId('value-column').click();
  await expect(heads(page)).toHaveText(['Level', 'Type', 'Host', 'App', 'path']);
  await expect(page).toHaveURL(/cols=_level%2C_type%2C_host%2C_app%2Cpath/);
  await expect(chip(page, 'path')).toHaveCount(0);
  const cell = page.getByTestId('line-row').first().locator('td[data-column="path"]');
  await expect(cell).toHaveText('/api/cart');

  // From the detail.
  await expand(page.getByTestId('line-row').first());
  await page.locator('[data-testid="field-row"][data-field="status"]').getByTestId('as-column').click();
  await expect(heads(page)).toHaveText(['Level', 'Type', 'Host', 'App', 'path', 'status']);

  // Dragged before the level, then moved back a place by its menu.
  const head = (name: string) => page.getByTestId('column-head').filter({ hasText: name });
  const [from, to] = [(await head('status').boundingBox())!, (await head('Level').boundingBox())!];
  await page.mouse.move(from.x + 10, from.y + 5);
  await page.mouse.down();
  await page.mouse.move(to.x + 4, to.y + 5, { steps: 6 });
  await page.mouse.up();
  await expect(heads(page)).toHaveText(['status', 'Level', 'Type', 'Host', 'App', 'path']);
  await head('status').click();
  await page.getByTestId('column-right').click();
  await expect(heads(page)).toHaveText(['Level', 'status', 'Type', 'Host', 'App', 'path']);
  await head('Type').click();
  await page.getByTestId('column-remove').click();
  await expect(heads(page)).toHaveText(['Level', 'status', 'Host', 'App', 'path']);

  // Wider by the mouse, then by a key.
  const edge = page.locator('th[data-field="path"]').getByTestId('column-edge');
  const before = (await cell.boundingBox())!.width;
  const box = (await edge.boundingBox())!;
  await page.mouse.move(box.x + 4, box.y + 8);
  await page.mouse.down();
  await page.mouse.move(box.x + 54, box.y + 8, { steps: 4 });
  await page.mouse.up();
  await expect.poll(async () => Math.round((await cell.boundingBox())!.width - before)).toBe(50);
  await edge.focus();
  await page.keyboard.press('ArrowRight');
  await expect.poll(async () => Math.round((await cell.boundingBox())!.width - before)).toBe(66);

  const url = page.url();
  const names = await heads(page).allInnerTexts();
  const context = await browser.newContext(baseURL ? { baseURL } : {});
  const other = await context.newPage();
  await other.goto(url);
  await expect(other.getByTestId('line-row').first()).toBeVisible();
  await expect(heads(other)).toHaveText(names);
  // Whoever opens a link keeps the columns of their own visits.
  await other.goto('/?range=1h');
  await settled(other);
  await expect(heads(other)).toHaveText(['Level', 'Type', 'Host', 'App']);
  await context.close();

  // The next visit, and back to the usual columns.
  await page.goto('/?range=1h');
  await settled(page);
  await expect(heads(page)).toHaveText(names);
  await expect(page).toHaveURL(/cols=/);
  await head('status').click();
  await page.getByTestId('columns-reset').click();
  await expect(heads(page)).toHaveText(['Level', 'Type', 'Host', 'App']);
  await expect(page).not.toHaveURL(/cols=/);
});

test('the order turns around, and keys reach every line', async ({ page, request }) => {
  const token = await postRequests(request);
  await open(page, token);
  const first = page.getByTestId('line-row').first();
  const newest = await first.getAttribute('data-id');
  await page.getByTestId('order').click();
  await expect(page).toHaveURL(/order=oldest/);
  await expect(page.getByTestId('lines-table').locator('th').first()).toHaveAttribute('aria-sort', 'ascending');
  await expect(first).not.toHaveAttribute('data-id', newest as string);
  await page.keyboard.press('j');
  await expect(first).toBeFocused();
  await page.keyboard.press('End');
  const last = page.locator(`[data-testid="line-row"][data-id="${newest}"]`);
  await expect(last).toBeFocused();
  await expect(last).toBeInViewport();
  await expect(last).toHaveAttribute('aria-rowindex', String(REQUESTS + 1));
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('line-row').nth(REQUESTS - 2)).toHaveAttribute('data-open', 'true');
});

test('a list of many thousand lines stays small in the document', async ({ page }) => {
  await page.goto('/?range=1h');
  await settled(page);
  const size = (): Promise<number> => page.evaluate(() => document.querySelectorAll('*').length);
  const before = await size();
  const rows = page.getByTestId('line-row');
  const last = async (): Promise<number> => Number(await rows.last().getAttribute('aria-rowindex'));
  await expect
    .poll(
      async () => {
        await page.locator('main').evaluate((main) => main.scrollTo(0, main.scrollHeight));
        return last();
      },
      { intervals: [100] },
    )
    .toBeGreaterThan(3000);
  await expect.poll(() => rows.count()).toBeLessThan(90);
  await expect.poll(size).toBeLessThan(2 * before);
});

const section = (page: Page, field: string) => page.locator(`[data-testid="facet"][data-field="${field}"]`);

test('the panel says what all lines share, what numbers are, and finds values', async ({ page, request }) => {
  const token = await postRequests(request);
  await open(page, token);
  // In all lines the same.
  await expect(page.getByTestId('constants')).toContainText(`The same in all ${REQUESTS} lines`);
  await expect(page.getByTestId('constants')).toContainText('pool=db1:5432/shop');
  // An identifier is among the fields that rarely help.
  await expect(page.getByTestId('noise').locator('[data-field="trace_id"]')).toBeVisible();

  const path = section(page, 'path');
  await path.locator('[data-value="/api/checkout"]').click();
  await expectQuery(page, `${token} path:="/api/checkout"`);
  await settled(page);
  await path.locator('[data-value="/api/cart"]').click();
  await expectQuery(page, `${token} (path:="/api/checkout" or path:="/api/cart")`);
  await settled(page);

  // Any value is found by a part of it, also of a field with very many.
  const trace = section(page, 'trace_id');
  await trace.getByRole('button', { expanded: false }).click();
  await trace.hover();
  await trace.getByTestId('facet-search').click();
  await trace.getByTestId('facet-typed').fill(`t17x`);
  await expect(trace.getByTestId('facet-value')).toHaveCount(1);
  await expect(trace.getByTestId('facet-value')).toContainText(`t17x${token}`);
  await trace.getByTestId('facet-value').click();
  await expect.poll(() => count(page.getByTestId('hits'))).toBe(1);

  // A column from the panel.
  await section(page, 'path').hover();
  await section(page, 'path').getByTestId('facet-column').click();
  await expect(heads(page).filter({ hasText: 'path' })).toHaveCount(1);
});

// dev/mock.ts computes no quantiles.
if (real) test('slow requests are two clicks away', async ({ page, request }) => {
  const token = await postRequests(request);
  await open(page, token);
  const numbers = section(page, 'duration_ms').getByTestId('facet-numbers');
  await expect(numbers.locator('[data-part="max"]')).toContainText('927');
  await numbers.locator('[data-part="median"]').click();
  await expectQuery(page, new RegExp(`^${token} duration_ms:>=\\d+$`));
  await settled(page);
  await numbers.locator('[data-part="max"]').click();
  await expectQuery(page, `${token} duration_ms:>=927`);
  await expect.poll(() => count(page.getByTestId('hits'))).toBe(1);
  await expect(page.getByTestId('line-row')).toHaveCount(1);
  await expect(page.getByTestId('line-row')).toContainText('/api/checkout');
});

test('two lines are compared, a line is read in full, its JSON folds', async ({ page, request }) => {
  const token = await postRequests(request);
  await open(page, token);
  const rows = page.getByTestId('line-row');
  await expand(rows.nth(0));
  await page.getByTestId('compare-line').click();
  await expect(page.getByTestId('compare-line')).toHaveAttribute('aria-pressed', 'true');
  await page.keyboard.press('Escape');
  await expand(rows.nth(2));
  await page.getByTestId('compare-line').last().click();
  const dialog = page.getByTestId('compare');
  await expect(dialog.locator('[data-field="path"] mark')).toHaveText(['cart', 'checkout']);
  await expect(dialog.locator('[data-field="pool"]')).toHaveCount(0);
  await dialog.getByTestId('compare-all').check();
  await expect(dialog.locator('[data-field="pool"]')).toHaveClass(/same/);
  await page.keyboard.press('Escape');
  await expect(dialog).toHaveCount(0);

  const detail = page.getByTestId('line-detail').last();
  const tree = detail.getByTestId('json-tree');
  await expect(tree.getByTestId('json-leaf').first()).toBeHidden();
  await tree.getByText('JSON').click();
  await expect(tree.getByTestId('json-leaf').filter({ hasText: 'pool:' })).toContainText('"db1:5432/shop"');
  await detail.getByTestId('read-line').click();
  await expect(page.getByTestId('reader-message')).toHaveText(`request done ${token}`);
  await page.keyboard.press('Escape');
  await expect(page.getByTestId('reader')).toHaveCount(0);
});

test('surrounding lines share the stream, the host, or the value of any field', async ({ page, request }) => {
  const token = await postRequests(request);
  await open(page, `${token} path:="/api/checkout"`);
  await expand(page.getByTestId('line-row').nth(1));
  await page.getByTestId('show-context').click();
  const panel = page.getByTestId('context-panel');
  await expect(panel.getByTestId('context-target')).toContainText(token);
  await expect(panel).toContainText('/api/cart');
  await panel.getByTestId('context-by').selectOption('path');
  await expect(page).toHaveURL(/by=path/);
  await expect(panel.getByTestId('context-target')).toHaveCount(1);
  await expect(panel).not.toContainText('/api/cart');
  await panel.getByTestId('context-by').selectOption('trace_id');
  await expect(panel.getByTestId('context-row')).toHaveCount(0);
  await expect(panel.getByTestId('context-before')).toContainText('No earlier line with this trace_id');
  // The link shows the same.
  await page.reload();
  await expect(panel.getByTestId('context-by')).toHaveValue('trace_id');
  await expect(panel.getByTestId('context-target')).toHaveCount(1);
  await page.keyboard.press('Escape');
  await expect(page).not.toHaveURL(/by=/);
});

test('all lines of a trace stand on lanes by service, and the link shows the same', async ({ page, request }) => {
  const id = `tr${Date.now()}`;
  const from = Date.now() - 20_000;
  const line = (ms: number, app_name: string, _msg: string, level = 'info') => post(request, { _time: new Date(from + ms).toISOString(), _msg, level, hostname: 'h1', app_name, trace_id: id });
  await line(0, 'front', 'GET /checkout');
  await line(20, 'orders', 'order accepted');
  await line(900, 'payment', 'card refused', 'error');
  await line(910, 'front', '502 sent');
  await expect.poll(async () => (await (await request.get('/select/logsql/query', { params: { query: `trace_id:="${id}"`, limit: 10 } })).text()).trim().split('\n').length).toBe(4);
  await open(page, `trace_id:="${id}" app_name:=payment`);
  await expand(page.getByTestId('line-row').first());
  await page.getByTestId('show-trace').click();
  const panel = page.getByTestId('trace-panel');
  await expect(panel.getByTestId('trace-sum')).toHaveText('4 lines of 3 services in 910 ms');
  await expect(panel.getByTestId('trace-lane')).toHaveText(['front', 'orders', 'payment']);
  await expect(panel.getByTestId('trace-gap')).toHaveText('880 ms without a line');
  await expect(panel.getByTestId('trace-line')).toHaveCount(4);
  await page.reload();
  await expect(panel.getByTestId('trace-line')).toHaveCount(4);
  await page.keyboard.press('Escape');
  await expect(panel).toHaveCount(0);
});

test('a live tail waits while its lines are read: scrolled away, pressed or open', async ({ page }) => {
  await page.goto('/?tail=1&range=1h');
  const table = page.getByTestId('lines-table');
  const bar = page.getByTestId('tail-bar');
  const total = async () => Number(await table.getAttribute('aria-rowcount'));
  await expect.poll(total).toBeGreaterThan(80);
  const main = page.locator('main');
  await main.evaluate((element) => element.scrollTo(0, 1000));
  await expect(bar).toContainText('Paused while you read');
  const before = await total();
  // Lines arrive and are held; the list stays as it is.
  await expect(page.getByTestId('tail-pause')).toHaveText(/Resume \(\d+ new\)/);
  expect(await total()).toBe(before);
  await main.evaluate((element) => element.scrollTo(0, 0));
  await expect(bar).toContainText('Live');
  // The list may be as long as it gets, so its newest line tells that it moves.
  const newest = () => page.getByTestId('line-row').first().getAttribute('data-id');
  const held = await newest();
  await expect.poll(newest).not.toBe(held);

  // A row that is pressed stays under the pointer, so that it opens, whichever is there by then.
  await expand(page.getByTestId('line-row').nth(3));
  const opened = page.locator('[data-testid="line-row"][data-open="true"]');
  await expect(opened).toHaveCount(1);
  await expect(bar).toContainText('Paused while you read');
  await expand(opened);
  await expect(opened).toHaveCount(0);
  // Lines that arrived before it was pressed may have moved it out of view, to where it was followed.
  await main.evaluate((element) => element.scrollTo(0, 0));
  await expect(bar).toContainText('Live');

  // A pause by the button does not end by reading.
  await page.getByTestId('tail-pause').click();
  await main.evaluate((element) => element.scrollTo(0, 1000));
  await main.evaluate((element) => element.scrollTo(0, 0));
  await expect(bar).toContainText('Paused');
  await expect(bar).not.toContainText('while you read');
});

test('without a server the last answer stays and says so', async ({ page, request }) => {
  const token = await postRequests(request);
  await open(page, token);
  const rows = await page.getByTestId('line-row').count();
  await page.route(/\/select\/logsql\//, (route) => route.abort('connectionrefused'));
  await page.getByTestId('run').click();
  await expect(page.getByTestId('earlier-rows')).toContainText(token);
  expect(await page.getByTestId('line-row').count()).toBe(rows);
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.getByTestId('run').click();
  await expect(page.getByTestId('earlier-rows')).toHaveCount(0);
});

test('a range that no clock has is not blank, and the header fits every width', async ({ page }) => {
  await page.goto('/?range=99999999999w');
  await settled(page);
  await expect(page.getByTestId('time-range')).toContainText('Last hour');
  for (const width of [390, 640, 700, 720, 800, 860, 900, 920, 1000, 1280]) {
    await page.setViewportSize({ width, height: 900 });
    const outside = await page.evaluate(() =>
      [...document.querySelectorAll('header, header > *, header nav a')].filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5).map(({ outerHTML }) => outerHTML.slice(0, 80)),
    );
    expect(outside, `at ${width} px`).toEqual([]);
  }
});
