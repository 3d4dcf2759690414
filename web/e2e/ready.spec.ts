// Ready dashboards, variables, texts, imports of Grafana, and a dashboard without the head of the page.

import { expect, expectAccessible, expectNoSidewaysScrolling, test, watch } from './common';

test.beforeEach(({ page }) => watch(page));

test.afterAll(async ({ request }) => {
  const { dashboards } = (await (await request.get('/api/v1/dashboards')).json()) as { dashboards: { id: string }[] };
  for (const { id } of dashboards) await request.delete(`/api/v1/dashboards/${id}`);
});

for (const title of ['Syslog', 'Web servers', 'Authentication', 'What arrives']) {
  test(`the ready dashboard ${title} has charts of the demo`, async ({ page }) => {
    await page.goto('/?view=dashboards');
    await page.locator(`[data-testid=ready][data-title="${title}"]`).click();
    await expect(page.getByTestId('dashboard-name')).toHaveText(title);
    const panels = page.getByTestId('panel');
    await expect(panels.nth(5)).toBeAttached();
    const number = await panels.count();
    for (let at = 0; at < number; at++) {
      await panels.nth(at).scrollIntoViewIfNeeded();
      await expect(panels.nth(at).getByTestId('chart-panel')).not.toHaveAttribute('data-loading', 'true');
      await expect(panels.nth(at).getByRole('alert')).toHaveCount(0);
    }
    // The demo has no failures to log in, and something of everything else.
    if (title !== 'Authentication') expect(await page.getByTestId('panel-empty').count()).toBeLessThan(number / 3);
    await expectAccessible(page);
  });
}

test('a variable chooses lines in all panels, and stands in the link', async ({ page }) => {
  await page.goto('/?view=dashboards');
  await page.locator('[data-testid=ready][data-title="Syslog"]').click();
  const lines = page.locator('[data-panel="1"]');
  await expect(lines.getByTestId('chart-panel')).not.toHaveAttribute('data-loading', 'true');
  const host = page.locator('[data-testid=variable][data-name="host"]');
  await host.locator('summary').click();
  const values = host.getByTestId('variable-value');
  await expect(values.nth(1)).toBeVisible();
  const [value, other] = await values.evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset['value'] as string));
  await values.first().check();
  await expect(page).toHaveURL(new RegExp(`var-host=${value}`));
  await expectAccessible(page, [], '[data-testid=variables]');
  await page.keyboard.press('Escape');
  await expect(values.first()).toBeHidden();
  await lines.getByTestId('panel-open').click();
  await expect(page).toHaveURL(new RegExp(`hostname%3A%3D%22${value}%22`));
  await page.goBack();
  await expect(host.locator('summary')).toContainText(value!);
  await page.reload();
  await expect(host.locator('summary')).toContainText(value!);

  // Several values: lines with any of them.
  await host.locator('summary').click();
  await host.getByTestId('variable-typed').fill(other!);
  await host.locator(`[data-value="${other}"]`).check();
  await expect(host.locator('summary')).toContainText(`${value}, ${other}`);
  await lines.getByTestId('panel-open').click();
  await expect.poll(() => new URL(page.url()).searchParams.get('query')).toContain(`(hostname:="${value}" or hostname:="${other}")`);
  await page.goBack();
  await host.locator('summary').click();
  await host.getByTestId('variable-all').check();
  await expect(page).not.toHaveURL(/var-host/);
});

test('variables and texts are edited in place', async ({ page }) => {
  await page.goto('/?view=dashboards');
  await page.getByTestId('new-title').fill('Mine');
  await page.getByTestId('new-dashboard').click();
  await page.getByTestId('variable-field').fill('app_name');
  await page.getByTestId('variable-add').click();
  await page.getByTestId('text-add').click();
  await page.getByTestId('panel-text').fill('Call the shop.\n<b>not bold</b>');
  await page.getByTestId('panel-text').blur();
  await page.getByTestId('dashboard-save').click();
  await expect(page.getByTestId('dashboard-save')).toHaveCount(0);
  await page.reload();
  await expect(page.getByTestId('panel')).toContainText('<b>not bold</b>');
  await expect(page.locator('[data-testid=variable][data-name="app_name"]')).toBeVisible();
});

test('a dashboard of Grafana is imported, and what is left out is said', async ({ page }) => {
  const grafana = {
    schemaVersion: 39,
    title: 'From Grafana',
    templating: { list: [{ name: 'interval', type: 'interval', query: '1m' }] },
    panels: [{ type: 'timeseries', title: 'Lines', targets: [{ expr: '* | stats by (_time:5m) count() n' }] }],
  };
  await page.goto('/?view=dashboards');
  await page.getByTestId('import-file').setInputFiles({ name: 'g.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(grafana)) });
  await expect(page.getByTestId('import-notes')).toContainText('interval was left out');
  await page.locator('[data-testid=dashboard-row][data-id="from-grafana"]').click();
  await expect(page.getByTestId('panel')).toHaveCount(1);
});

test('a frame has no head of the page', async ({ page }) => {
  await page.goto('/?view=dashboards');
  await page.locator('[data-testid=ready][data-title="What arrives"]').click();
  await expect(page.getByTestId('dashboard-name')).toBeVisible();
  await page.goto(`${page.url()}&embed=1`);
  await expect(page.getByTestId('dashboard-name')).toHaveText('What arrives');
  await expect(page.getByRole('navigation')).toHaveCount(0);
  await expect(page.getByTestId('dashboard-edit')).toHaveCount(0);
  await page.setViewportSize({ width: 390, height: 800 });
  await expectNoSidewaysScrolling(page);
});
