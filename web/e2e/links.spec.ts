// Short links: the server keeps a view, and the link opens it elsewhere.

import { expand, expect, expectAccessible, post, settled, test, watch } from './common';

test.beforeEach(({ page }) => watch(page));

test('a short link opens the view that it was made of', async ({ page, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto(`/?query=${encodeURIComponent('_level:=error')}&range=30m`);
  await settled(page);
  await page.getByTestId('short-link').click();
  await expect(page.getByTestId('short-link')).toHaveText('Copied');
  const link = await page.evaluate(() => navigator.clipboard.readText());
  expect(link).toMatch(/\/\?l=[\w-]{12}$/);
  await page.goto(link);
  await expect(page).toHaveURL(/query=_level%3A%3Derror&from=/);
  await settled(page);
  await page.goto('/?l=AAAAAAAAAAAA');
  await expect(page.getByTestId('link-error')).toContainText('there is no link');
});

test('a link to another program and a runbook are made once, and are then in the lines that they are for', async ({ page, request }) => {
  const token = `out${Date.now()}`;
  await post(request, { _msg: `${token} no space left on device`, app_name: 'shop', trace_id: `t/${token}` });
  await page.goto('/?view=status');
  const card = page.getByTestId('links-card');
  const add = async (name: string, url: string, pattern: string): Promise<void> => {
    await card.getByTestId('link-name').fill(name);
    await card.getByTestId('link-url').fill(url);
    await card.getByTestId('link-pattern').fill(pattern);
    await card.getByTestId('link-save').click();
  };
  await add(`evil ${token}`, 'javascript:alert(1)//{trace_id}', '');
  await expect(card.getByTestId('links-error')).toContainText('http://');
  await add(`Trace ${token}`, 'https://jaeger.example/trace/{trace_id}', '');
  await expect(card.locator(`[data-name="Trace ${token}"]`)).toBeVisible();
  await add(`Disk ${token}`, 'https://wiki.example/disk', `${token} no*left`);
  await expect(card.locator(`[data-name="Disk ${token}"]`)).toBeVisible();
  await expectAccessible(page, [], '[data-testid="links-card"]');

  await page.goto(`/?range=1h&query=${token}`);
  await settled(page);
  await expand(page.getByTestId('line-row').first());
  const trace = page.getByTestId('line-out').filter({ hasText: `Trace ${token}` });
  await expect(trace).toHaveAttribute('href', `https://jaeger.example/trace/t%2F${token}`);
  await expect(trace).toHaveAttribute('rel', 'noopener noreferrer');
  await expect(page.getByTestId('line-out').first()).toHaveText(`Runbook: Disk ${token} ↗`);
  // It is no dashboard.
  await page.goto('/?view=dashboards');
  await expect(page.getByTestId('dashboards-list')).toBeVisible();
  await expect(page.locator('[data-testid="dashboard-row"][data-id="_links"]')).toHaveCount(0);
});
