// The view of alerts, with answers of alertsMock.ts.

import type { Page } from '@playwright/test';
import { AlertsMock } from './alertsMock';
import { drawnMark, expect, expectAccessible, expectNoSidewaysScrolling, settled, test, TYPE, watch } from './common';

let mock: AlertsMock;
test.beforeEach(async ({ page }) => {
  watch(page);
  mock = new AlertsMock();
  await mock.serve(page);
});

const rule = (page: Page, name: string) => page.locator(`[data-testid="rule"][data-name="${name}"]`);

async function textOf(page: Page): Promise<string> {
  return page.getByTestId('rules-text').evaluate((box) => [...box.querySelectorAll('.cm-line')].map((line) => line.textContent).join('\n'));
}

test('rules that fire come first, with their values; failing ones say why', async ({ page }) => {
  await page.goto('/?view=alerts&range=1h');
  await expect(page.getByTestId('alert-counts')).toHaveText('1 firing, 0 pending, 4 rules');
  await expect(page.getByTestId('rule')).toHaveCount(4);
  await expect(page.getByTestId('rule').nth(0)).toHaveAttribute('data-name', 'ErrorsOfWeb');
  await expect(page.getByTestId('rule').nth(1)).toHaveAttribute('data-name', 'Broken');
  await expect(rule(page, 'ErrorsOfWeb').getByTestId('alert')).toHaveCount(2);
  await expect(rule(page, 'ErrorsOfWeb').getByTestId('alert').first()).toContainText('42.5');
  await expect(rule(page, 'ErrorsOfWeb').getByTestId('alert').first()).toContainText('web1 has 42.5 errors');
  await expect(rule(page, 'Broken').getByTestId('rule-error')).toContainText('narrow its filter');
  await expect(rule(page, 'Broken').getByTestId('alert-state')).toHaveAttribute('data-state', 'failed');
  await expect(page.getByTestId('history-strips').getByTestId('strip')).toHaveCount(2);
  await rule(page, 'ErrorsOfWeb').getByTestId('rule-lines').click();
  await expect(page).toHaveURL(/query=_type%3A%3D%22access%22\+status%3A%3E%3D500(&|$)/);
  await settled(page);
});

test('a notifier that fails says why, and can be tested', async ({ page }) => {
  const counts = { waiting: 0, sent_total: 12, given_up_total: 0, refused_total: 0 };
  const reason = 'https://hooks.example answered 500: no';
  mock.notifiers = [
    { name: 'mail', kind: 'email', state: 'ok', ...counts, last_error: null, last_error_time: null },
    { name: 'hook', kind: 'webhook', state: 'failing', ...counts, last_error: reason, last_error_time: new Date().toISOString() },
  ];
  await page.goto('/?view=alerts&range=1h');
  await expect(page.getByTestId('notifier')).toHaveCount(2);
  await expect(page.getByTestId('notifier-error')).toHaveCount(1);
  await expect(page.getByTestId('notifier-error')).toContainText(reason);
  await page.getByTestId('notifier-test').first().click();
  await expect(page.getByTestId('notifier-tested')).toHaveText('The receiver took the test.');
  await page.getByTestId('notifier-test').nth(1).click();
  await expect(page.getByTestId('notifier-tested').nth(1)).toHaveText(`The test failed: ${reason}`);
  await expectAccessible(page);
});

test('a receiver is added, changed and deleted, and its secret is never shown again', async ({ page }) => {
  const counts = { waiting: 0, sent_total: 0, given_up_total: 0, refused_total: 0, last_error: null, last_error_time: null, state: 'ok' as const };
  mock.notifiers = [{ name: 'mail', kind: 'email', provided: true, ...counts }];
  await page.goto('/?view=alerts&range=1h');
  await expect(page.getByTestId('notifier')).toContainText('in the configuration file');
  await expect(page.getByTestId('receiver-edit')).toHaveCount(0);
  await page.getByTestId('receiver-new').click();
  await page.getByTestId('receiver-save').click();
  await expect(page.getByTestId('receiver-refusal')).toContainText('Give it a name');
  await page.getByTestId('receiver-name').fill('mail');
  await page.getByTestId('receiver-save').click();
  await expect(page.getByTestId('receiver-refusal')).toContainText('Fill in “Address of the webhook”.');
  await page.getByTestId('receiver-url').fill('https://hooks.example/s3cr3t');
  await page.getByTestId('receiver-save').click();
  await expect(page.getByTestId('receiver-refusal')).toContainText('of this name already');
  await page.getByTestId('receiver-name').fill('chat');
  await page.getByTestId('receiver-matchers').fill('severity="page", host=~"web.*"');
  await page.getByTestId('receiver-text').fill('{{ $nothing }}');
  await page.getByTestId('receiver-save').click();
  await expect(page.getByTestId('receiver-refusal')).toContainText('$nothing');
  await page.getByTestId('receiver-text').fill('{{ $annotations.summary }}');
  await page.getByTestId('receiver-line').check();
  await expectAccessible(page);
  await page.getByTestId('receiver-save').click();
  const chat = page.locator('[data-testid="notifier"][data-name="chat"]');
  await expect(chat).toContainText('Slack');
  expect(mock.receivers.get('chat')).toEqual({
    matchers: ['severity="page"', 'host=~"web.*"'],
    send_resolved: true,
    sample_line: true,
    text: '{{ $annotations.summary }}',
    slack: {},
    secrets: { url: 'https://hooks.example/s3cr3t' },
  });
  await chat.getByTestId('notifier-test').click();
  await expect(chat.getByTestId('notifier-tested')).toHaveText('The receiver took the test.');

  // The secret does not come back, and stays when the rest is changed.
  await chat.getByTestId('receiver-edit').click();
  await expect(page.getByTestId('receiver-url')).toHaveValue('');
  await expect(page.getByTestId('receiver-url')).toHaveAttribute('placeholder', /is kept/);
  await expect(page.getByTestId('receiver-matchers')).toHaveValue('severity="page", host=~"web.*"');
  await page.getByTestId('receiver-resolved').uncheck();
  await page.getByTestId('receiver-save').click();
  await expect(page.getByTestId('receiver-form')).toHaveCount(0);
  expect(mock.receivers.get('chat')).toMatchObject({ send_resolved: false, secrets: { url: 'https://hooks.example/s3cr3t' } });
  await chat.getByTestId('receiver-delete').click();
  await chat.getByTestId('receiver-delete-yes').click();
  await expect(chat).toHaveCount(0);
  expect(mock.receivers.size).toBe(0);
});

test('one choice silences a rule or one of its alerts, and it can be ended', async ({ page }) => {
  await page.goto('/?view=alerts&range=1h');
  const before = Date.now();
  await rule(page, 'ErrorsOfWeb').getByTestId('silence').first().selectOption({ label: 'for 4 hours' });
  await expect(page.getByTestId('silence-row')).toContainText('alertname="ErrorsOfWeb", alertgroup="web"');
  await expect(rule(page, 'ErrorsOfWeb').getByTestId('silenced')).toBeVisible();
  const [made] = mock.silences;
  expect(Date.parse(made!.endsAt) - Date.parse(made!.startsAt)).toBe(4 * 3_600_000);
  // By the server's clock, which the page knows to about a second.
  expect(Date.parse(made!.startsAt)).toBeGreaterThan(before - 60_000);
  expect(Date.parse(made!.startsAt)).toBeLessThan(Date.now() + 60_000);
  await page.getByTestId('silence-end').click();
  await expect(page.getByTestId('silence-row')).toHaveCount(0);
  await rule(page, 'ErrorsOfWeb').getByTestId('alert').first().getByTestId('silence').selectOption({ label: 'for 1 hour' });
  await expect(page.getByTestId('silence-row')).toContainText('host="web1"');
});

test('an alert is acknowledged by its name, and a maintenance window is planned', async ({ page }) => {
  await page.goto('/?view=alerts&range=1h');
  const first = rule(page, 'ErrorsOfWeb').getByTestId('alert').first();
  await first.getByTestId('acknowledge').click();
  await expect(first.getByTestId('acknowledged')).toContainText('acknowledged by page, until');
  await expect(first.getByTestId('acknowledge')).toHaveCount(0);
  await expect(rule(page, 'ErrorsOfWeb').getByTestId('alert').nth(1).getByTestId('acknowledge')).toBeVisible();
  expect(mock.silences[0]!.matchers.find(({ name }) => name === 'host')!.value).toBe('web1');

  await page.getByTestId('window-plan').click();
  await page.getByTestId('window-matchers').fill('host');
  await page.getByTestId('window-save').click();
  await expect(page.getByTestId('window-problem')).toContainText('which alerts');
  await page.getByTestId('window-matchers').fill('host=~"db.*"');
  await page.getByTestId('window-from').fill('2099-12-24 22:00');
  await page.getByTestId('window-to').fill('2099-12-25 02:00');
  await page.getByTestId('window-comment').fill('new disks');
  await expectAccessible(page, [], '[data-testid="silences"]');
  await page.getByTestId('window-save').click();
  await expect(page.getByTestId('silence-row').filter({ hasText: 'new disks' })).toContainText(/host=~"db.*".*from 2099-12-24.*until 2099-12-25/);
  const window = mock.silences.at(-1)!;
  expect(Date.parse(window.endsAt) - Date.parse(window.startsAt)).toBe(4 * 3_600_000);
});

test('alerts are marks on the histogram of lines', async ({ page }) => {
  await page.goto('/?range=1h');
  await settled(page);
  const marks = page.getByTestId('time-mark');
  await expect(marks).toHaveCount(3);
  await expect(page.locator('[data-testid="time-mark"][data-tone="good"]')).toHaveCount(1);
  const chart = page.getByTestId('histogram-chart');
  const begun = await drawnMark(page, chart, page.locator('[data-testid="time-mark"][data-tone="bad"]').first(), '--level-alert');
  await drawnMark(page, chart, page.locator('[data-testid="time-mark"][data-tone="good"]'), '--good');
  await page.mouse.move(begun.x, begun.y);
  await expect(page.getByTestId('bar-mark').first()).toContainText('ErrorsOfWeb (host=');
});

test('“Alert on this” begins a rule from a result, which is tested on the past, refused with its line, and saved', async ({ page }) => {
  const query = `${TYPE}:="access" | stats by (_time:5m, path) count() lines | sort by (lines desc)`;
  await page.goto(`/?range=1h&query=${encodeURIComponent(query)}`);
  await settled(page);
  await page.getByTestId('alert-on-this').click();
  await page.getByTestId('rules-yaml').click();
  await expect(page.getByTestId('rules-text')).toBeVisible();
  const text = await textOf(page);
  expect(text).toContain('interval: 5m');
  expect(text).toContain('| stats by (path) count() lines\n          | filter lines:>0');
  await page.getByTestId('rules-test').click();
  await expect(page.getByTestId('tested-rule')).toHaveText('It would have fired 2 times.');
  await expect(page.getByTestId('test-strips').getByTestId('strip').filter({ hasText: 'web1' })).toHaveAttribute('data-parts', 'pending firing');
  expect(mock.tested[0]!.rules).toBe(text);
  expect(Date.parse(mock.tested[0]!.end) - Date.parse(mock.tested[0]!.start)).toBe(3_600_000);

  await expect(page.getByTestId('rules-save')).toBeDisabled();
  await page.getByTestId('rules-name').fill('web.yml');
  await expect(page.getByTestId('rules-save')).toBeDisabled();
  await page.getByTestId('rules-name').fill('paths.yml');
  await page.getByTestId('rules-text').focus();
  await page.keyboard.press('ControlOrMeta+Home');
  await page.keyboard.insertText('# exprr\n');
  await page.getByTestId('rules-save').click();
  await expect(page.getByTestId('rules-refusal')).toContainText('Line 1: unknown key');
  await expect(page.getByTestId('rules-text').locator('.cm-lintRange-error')).toHaveText('# exprr');
  await page.getByTestId('rules-text').focus();
  await page.keyboard.press('ControlOrMeta+Home');
  await page.keyboard.press('Shift+ArrowDown');
  await page.keyboard.press('Delete');
  await expect(page.getByTestId('rules-refusal')).toHaveCount(0);
  await page.getByTestId('rules-save').click();
  await expect(page).toHaveURL(/rules=paths.yml/);
  expect(mock.files.get('paths.yml')).toBe(text);
});

test('a rule is made by choices: a bound on the chart of the past, receivers, a message', async ({ page }) => {
  const counts = { waiting: 0, sent_total: 0, given_up_total: 0, refused_total: 0, last_error: null, last_error_time: null, state: 'ok' as const };
  mock.notifiers = [
    { name: 'mail', kind: 'email', ...counts },
    { name: 'pager', kind: 'webhook', matchers: [{ name: 'severity', value: 'page', isRegex: false, isEqual: true }], ...counts },
  ];
  await page.goto(`/?range=1h&query=${encodeURIComponent(`${TYPE}:="access" | stats by (_time:5m) count() lines`)}`);
  await settled(page);
  await page.getByTestId('alert-on-this').click();
  // Every step has lines, so it would have fired all the time; and never, with the bound above all of them.
  await expect(page.getByTestId('past-firing').first()).toBeAttached();
  await expect(page.getByTestId('past-firings')).toContainText('once');
  const chart = (await page.getByTestId('threshold-chart').boundingBox())!;
  await page.mouse.move(chart.x + chart.width / 2, chart.y + chart.height - 10);
  await page.mouse.down();
  await page.mouse.move(chart.x + chart.width / 2, chart.y + 4, { steps: 4 });
  await page.mouse.up();
  await expect(page.getByTestId('past-firing')).toHaveCount(0);
  await expect(page.getByTestId('past-firings')).toContainText('never');
  const dragged = Number(await page.getByTestId('rule-threshold').inputValue());
  expect(dragged).toBeGreaterThan(0);
  await page.getByTestId('threshold-handle').focus();
  await page.keyboard.press('ArrowDown');
  expect(Number(await page.getByTestId('rule-threshold').inputValue())).toBeLessThan(dragged);
  await page.getByTestId('rule-threshold').fill('7');

  await page.getByTestId('rule-name').fill('ManyLines');
  const pager = page.locator('[data-testid="receiver"][data-name="pager"]');
  await expect(page.locator('[data-testid="receiver"][data-name="mail"]')).toHaveAttribute('data-told', 'true');
  await expect(pager).toHaveAttribute('data-told', 'false');
  await pager.getByRole('checkbox').check();
  await expect(pager).toHaveAttribute('data-told', 'true');
  await pager.getByTestId('receiver-test').click();
  await expect(pager).toContainText('The receiver took the test.');
  await page.getByTestId('rule-example').check();
  await expectAccessible(page);
  await page.setViewportSize({ width: 390, height: 800 });
  await expectNoSidewaysScrolling(page);
  await page.setViewportSize({ width: 1360, height: 900 });

  await page.getByTestId('rules-yaml').click();
  const text = await textOf(page);
  expect(text).toContain('- alert: ManyLines');
  expect(text).toContain('| filter lines:>7');
  expect(text).toContain('severity: page');
  expect(text).toContain('example: "');
  // What is written by hand is not lost to a choice.
  await page.getByTestId('rules-text').focus();
  await page.keyboard.press('ControlOrMeta+Home');
  await page.keyboard.insertText('# by hand\n');
  await expect(page.getByTestId('rule-choices')).toHaveCount(0);
  await page.getByTestId('rules-form').click();
  await expect(page.getByTestId('rule-name')).toHaveValue('ManyLines');
  await page.getByTestId('rules-name').fill('many.yml');
  await page.getByTestId('rules-save').click();
  await expect(page).toHaveURL(/rules=many.yml/);
  expect(mock.files.get('many.yml')).toBe(text);
});

test('a file of rules is changed, keeps its draft over a change of the view, and is deleted', async ({ page }) => {
  await page.goto('/?view=alerts&range=1h');
  await rule(page, 'AllQuiet').getByTestId('rule-edit').click();
  await expect(page.getByTestId('rules-text')).toContainText('ErrorsOfWeb');
  await expect(page.getByTestId('rules-save')).toBeDisabled();
  await page.getByTestId('rules-text').focus();
  await page.keyboard.press('ControlOrMeta+End');
  await page.keyboard.type('# more');
  await page.getByTestId('view-status').click();
  await page.goBack();
  await expect(page.getByTestId('rules-text')).toContainText('# more');
  // Tab leaves the text.
  await page.getByTestId('rules-text').focus();
  await page.keyboard.press('Tab');
  await expect(page.getByTestId('rules-text')).not.toBeFocused();
  await page.getByTestId('rules-save').click();
  await expect(page.getByTestId('rule-editor')).toContainText('Saved.');
  expect(mock.files.get('web.yml')).toContain('# more');
  await page.getByTestId('rules-delete').click();
  await page.getByTestId('rules-delete-yes').click();
  await expect(page.getByTestId('no-rules')).toBeVisible();
});

test('a file of the server’s folder is read and tested, not changed', async ({ page }) => {
  mock.provisioned = 'web.yml';
  await page.goto('/?view=alerts&rules=web.yml');
  await expect(page.getByTestId('rules-provisioned')).toBeVisible();
  await expect(page.getByTestId('rules-text')).toHaveAttribute('contenteditable', 'false');
  await expect(page.getByTestId('rules-save')).toBeDisabled();
  await expect(page.getByTestId('rules-delete')).toHaveCount(0);
  await page.getByTestId('rules-test').click();
  await expect(page.getByTestId('tested-rule')).toBeVisible();
});

test('a server without alerts says so, and Lines goes on', async ({ page }) => {
  await page.unrouteAll();
  await page.route(/\/api\/v1\/(rules|alerts|silences)/, (route) => route.fulfill({ status: 404, json: { error: 'there is no such path' } }));
  await page.goto('/?view=alerts');
  await expect(page.getByTestId('alerts-absent')).toBeVisible();
  await page.goto('/?range=1h');
  await settled(page);
  await expect(page.getByTestId('line-row').first()).toBeVisible();
});

for (const [name, viewport] of Object.entries({ desk: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } })) {
  for (const url of ['/?view=alerts&range=1h', '/?view=alerts&rules=web.yml', '/?range=1h']) {
    test(`no serious finding: ${url} on a ${name}`, async ({ page }) => {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme: 'light' });
      mock.silences.push({ id: 's', matchers: [{ name: 'host', value: 'web1', isRegex: false, isEqual: true }], startsAt: new Date().toISOString(), endsAt: new Date(Date.now() + 3_600_000).toISOString(), createdBy: 'ann', comment: 'known' });
      await page.goto(url);
      if (url.includes('rules')) await page.getByTestId('rules-test').click();
      const shown = url.includes('rules') ? page.getByTestId('test-strips') : url.includes('alerts') ? page.getByTestId('history-strips') : page.getByTestId('time-mark').first();
      await expect(shown).toBeAttached();
      if (!url.includes('view')) await settled(page);
      // axe.spec.ts checks the rest of the lines.
      const part = url.includes('view') ? 'html' : '[data-testid="histogram"]';
      await expectAccessible(page, [], part);
      await expectNoSidewaysScrolling(page);
      await page.emulateMedia({ colorScheme: 'dark' });
      await expectAccessible(page, ['color-contrast'], part);
    });
  }
}
