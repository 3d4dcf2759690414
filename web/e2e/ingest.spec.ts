// Status: rules at ingest are tried on recent lines, a table is uploaded and looked up, and a macro is saved and called.

import { expect, fillQuery, real, settled, test, watch } from './common';

test.beforeEach(({ page }) => watch(page));

if (real) test('rules are tried on recent lines, before and after', async ({ page }) => {
  await page.goto('/?view=status');
  await expect(page.getByTestId('rules-none')).toBeVisible();
  await page.getByTestId('rules-try').click();
  await page.getByTestId('rules-text').fill('[[rules]]\nname = "team"\nset = { team = "shop" }\n');
  await page.getByTestId('rules-run').click();
  await expect(page.getByTestId('rules-summary')).toContainText(/[1-9]\d* of \d+ lines? would be changed/);
  await expect(page.getByTestId('rules-trial').first()).toContainText('team: – → shop');
  await page.getByTestId('rules-text').fill('[[rules]]\nname = "all"\ndrop = true\n');
  await page.getByTestId('rules-run').click();
  await expect(page.locator('[data-testid="rules-trial"][data-dropped="true"]').first()).toBeVisible();
  await page.getByTestId('rules-text').fill('[[rules]]\nname = 1\n');
  await page.getByTestId('rules-run').click();
  await expect(page.getByTestId('rules-error')).toBeVisible();
});

if (real) test('a table is uploaded, looked up and deleted; a broken one changes nothing', async ({ page }) => {
  const send = async (text: string): Promise<void> => {
    await page.getByTestId('lookup-name').fill('nets');
    await page.getByTestId('lookup-match').selectOption('cidr');
    await page.getByTestId('lookup-file').setInputFiles({ name: 'nets.csv', mimeType: 'text/csv', buffer: Buffer.from(text) });
    await page.getByTestId('lookup-upload').click();
  };
  const find = async (value: string): Promise<void> => {
    await page.getByTestId('lookup-value').fill(value);
    await page.getByTestId('lookup-find').click();
  };
  await page.goto('/?view=status');
  await send('net,owner\n10.0.0.0/8,inside\n');
  const row = page.locator('[data-testid="lookup-row"][data-name="nets"]');
  await expect(row).toContainText('uploaded');
  await find('10.1.2.3');
  await expect(page.getByTestId('lookups-said')).toHaveText('owner: inside');
  await send('net,owner\nno network,outside\n');
  await expect(page.getByTestId('lookups-error')).toBeVisible();
  await find('10.1.2.3');
  await expect(page.getByTestId('lookups-said')).toHaveText('owner: inside');
  await row.getByTestId('lookup-delete').click();
  await expect(row).toHaveCount(0);
});

if (real) test('a macro is saved, called and deleted', async ({ page, request }) => {
  await request.delete('/api/v1/macros/e2e_status');
  await page.goto('/?view=status');
  await page.getByTestId('macro-name').fill('e2e_status');
  await page.getByTestId('macro-parameters').fill('code');
  await page.getByTestId('macro-text').fill('status:=$other');
  await page.getByTestId('macro-save').click();
  await expect(page.getByTestId('macros-error')).toContainText("there is no parameter 'other'");
  await page.getByTestId('macro-text').fill('status:=$code');
  await page.getByTestId('macro-save').click();
  const row = page.locator('[data-testid="macro-row"][data-name="e2e_status"]');
  await expect(row).toContainText('@e2e_status(code)');

  await page.goto('/?range=1h');
  await settled(page);
  await fillQuery(page, '@e2e_status(200)');
  await page.keyboard.press('Enter');
  await settled(page);
  await expect(page.getByTestId('hits')).not.toHaveText('0');

  await page.goto('/?view=status');
  await row.getByTestId('macro-delete').click();
  await expect(row).toHaveCount(0);
});

if (real) test('rules, tables and macros that cannot be read are not called absent', async ({ page }) => {
  for (const path of ['ingest/rules', 'lookups', 'macros']) await page.route(`**/api/v1/${path}`, (route) => route.fulfill({ status: 503, json: { error: 'the store is not open' } }));
  await page.goto('/?view=status');
  for (const card of ['rules', 'lookups', 'macros']) {
    await expect(page.getByTestId(`${card}-unread`)).toContainText('the store is not open');
    await expect(page.getByTestId(`${card}-none`)).toHaveCount(0);
  }
});
