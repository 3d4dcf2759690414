// The view of alerts with a real server: a rule is written, tested on the past, fires, is silenced
// and deleted.

import { expect, real, settled, test, TYPE, watch } from './common';

if (real) test('a rule is begun from a result, tested on the past, fires, is silenced, marked and deleted', async ({ page }) => {
  watch(page);
  const name = `page${Date.now()}`;
  await page.goto(`/?range=1h&query=${encodeURIComponent(`${TYPE}:="access" | stats by (_time:5m, hostname) count() lines`)}`);
  await settled(page);
  await page.getByTestId('alert-on-this').click();
  await page.getByTestId('rules-yaml').click();
  const text = page.getByTestId('rules-text');
  await expect(text).toContainText('NewAlert');
  // As it is begun, the rule is one that the server takes.
  await page.getByTestId('rules-test').click();
  await expect(page.getByTestId('tested-rule')).toContainText('It would have fired');
  await expect(page.getByTestId('test-strips').getByTestId('strip').first()).toBeVisible();

  // A mistake is refused with its line.
  await page.getByTestId('rules-name').fill(`${name}.yml`);
  await text.focus();
  await page.keyboard.press('ControlOrMeta+A');
  const rules = (key: string): string => `groups:\n- name: ${name}\n  interval: 2s\n  rules:\n  - alert: ${name}\n    ${key}: '${TYPE}:="access" | stats count() lines | filter lines:>0'\n`;
  await page.keyboard.insertText(rules('exprr'));
  await page.getByTestId('rules-save').click();
  await expect(page.getByTestId('rules-refusal')).toContainText(/\bline 6\b/);
  await expect(text.locator('.cm-lintRange-error')).toBeVisible();
  await text.focus();
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.insertText(rules('expr'));
  await page.getByTestId('rules-save').click();
  await expect(page).toHaveURL(new RegExp(`rules=${name}.yml`));

  await page.getByTestId('all-rules').click();
  const rule = page.locator(`[data-testid="rule"][data-name="${name}"]`);
  await expect(rule).toHaveAttribute('data-state', 'firing');
  await expect(rule.getByTestId('alert-value')).toHaveText(/^\d/);
  await expect(page.getByTestId('history-strips')).toContainText(name);
  await rule.getByTestId('silence').first().selectOption({ label: 'for 1 hour' });
  await expect(rule.getByTestId('silenced')).toBeVisible();
  const row = page.getByTestId('silence-row').filter({ hasText: name });
  await row.getByTestId('silence-end').click();
  await expect(row).toHaveCount(0);
  await expect(rule.getByTestId('silenced')).toHaveCount(0);

  await page.goto('/?range=15m');
  await settled(page);
  await expect(page.locator('[data-testid="time-mark"][data-tone="bad"]').first()).toBeAttached();

  await page.goto(`/?view=alerts&rules=${name}.yml`);
  await page.getByTestId('rules-delete').click();
  await page.getByTestId('rules-delete-yes').click();
  await expect(page).not.toHaveURL(/rules=/);
  await expect(rule).toHaveCount(0);
});

if (real) test('a receiver is made, tested, named by a rule and deleted', async ({ page }) => {
  watch(page);
  const name = `ntfy-${Date.now()}`;
  await page.goto('/?view=alerts');
  await page.getByTestId('receiver-new').click();
  await page.getByTestId('receiver-name').fill(name);
  await page.getByTestId('receiver-kind').selectOption('ntfy');
  await page.getByTestId('receiver-topic').fill('not a topic');
  await page.getByTestId('receiver-save').click();
  await expect(page.getByTestId('receiver-refusal')).toContainText('letters, digits');
  await page.getByTestId('receiver-topic').fill('ops');
  await page.getByTestId('receiver-url').fill('http://127.0.0.1:9');
  await page.getByTestId('receiver-token').fill('tk_s3cr3t');
  await page.getByTestId('receiver-matchers').fill('severity="page"');
  await page.getByTestId('receiver-save').click();
  const receiver = page.locator(`[data-testid="notifier"][data-name="${name}"]`);
  await receiver.getByTestId('notifier-test').click();
  // A receiver that is made on the page is not on the machine of the server.
  await expect(receiver.getByTestId('notifier-tested')).toContainText('127.0.0.1 is refused');
  await receiver.getByTestId('receiver-edit').click();
  await expect(page.getByTestId('receiver-token')).toHaveValue('');
  await expect(page.getByTestId('receiver-topic')).toHaveValue('ops');
  await page.getByTestId('receiver-url').fill('https://ntfy.example');
  await page.getByTestId('receiver-save').click();
  await expect(page.getByTestId('receiver-refusal')).toContainText('give the secrets again');
  await page.getByTestId('receiver-cancel').click();

  await page.goto(`/?range=1h&query=${encodeURIComponent(`${TYPE}:="access" | stats by (_time:5m) count() lines`)}`);
  await settled(page);
  await page.getByTestId('alert-on-this').click();
  const named = page.locator(`[data-testid="receiver"][data-name="${name}"]`);
  await named.getByRole('checkbox').check();
  await expect(named).toHaveAttribute('data-told', 'true');

  await page.goto('/?view=alerts');
  await receiver.getByTestId('receiver-delete').click();
  await receiver.getByTestId('receiver-delete-yes').click();
  await expect(receiver).toHaveCount(0);
});
