// The login, against a server with users, over HTTPS: ann (operate), rob (read) and ship (ingest). Without a binary to start
// one, playwright.config.ts leaves this file out.

import AxeBuilder from '@axe-core/playwright';
import type { Page } from '@playwright/test';
import { expect, test, watch } from './common';
import { PASSWORD } from './servers';

// One worker runs them all, so that the server is started once.
test.describe.configure({ mode: 'default' });
test.use({ ignoreHTTPSErrors: true, baseURL: async ({ securedUrl }, use) => use(securedUrl) });
test.beforeEach(({ page }) => watch(page));

async function logIn(page: Page, name: string, password = PASSWORD): Promise<void> {
  await page.getByTestId('login-name').fill(name);
  await page.getByTestId('login-password').fill(password);
  await page.getByTestId('login-submit').click();
}

test('a login leads back to the same view', async ({ page, context, baseURL }) => {
  const asked: string[] = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  const at = '/?view=queries&range=6h';
  await page.goto(at);
  await expect(page.getByTestId('login')).toBeVisible();
  await expect(page.getByTestId('login-name')).toBeFocused();
  expect(await page.title()).toBe('Log in – Loginson');
  expect(asked.filter((path) => path.startsWith('/select') || path === '/api/v1/status')).toEqual([]);
  await logIn(page, 'ann', 'wrong');
  await expect(page.getByTestId('login-error')).toHaveText('The name or the password is wrong.');
  await expect(page.getByTestId('login-password')).toHaveValue('');
  await expect(page.getByTestId('login-password')).toBeFocused();
  await page.getByTestId('login-password').fill(PASSWORD);
  await page.keyboard.press('Enter');
  await expect(page.getByTestId('queue-table')).toBeVisible();
  expect(page.url()).toBe(new URL(at, baseURL).href);
  await expect(page.getByTestId('who')).toHaveText('ann (operate)');
  const [cookie] = await context.cookies();
  expect(cookie).toMatchObject({ httpOnly: true, secure: true, sameSite: 'Strict', path: '/' });
  expect(await page.evaluate(() => document.cookie)).toBe('');
  // The session survives a reload, and a link from another site opens with it.
  await page.reload();
  await expect(page.getByTestId('queue-table')).toBeVisible();
  await page.getByTestId('log-out').click();
  await expect(page.getByTestId('login')).toBeVisible();
  await page.reload();
  await expect(page.getByTestId('login')).toBeVisible();
  await expect(page.getByTestId('login-ended')).toHaveCount(0);
});

test('when a session ends, the login is shown again', async ({ page, context }) => {
  await page.goto('/?view=status');
  await logIn(page, 'rob');
  await expect(page.getByTestId('who')).toHaveText('rob (read)');
  await context.clearCookies();
  await expect(page.getByTestId('login-ended')).toBeVisible();
  await logIn(page, 'rob');
  await expect(page.getByTestId('who')).toBeVisible();
  expect(new URL(page.url()).search).toBe('?view=status');
});

test('queries run, and each sees what the role may', async ({ page, request }) => {
  // For an empty store the page says so instead of counting hits.
  const authorization = `Basic ${Buffer.from(`ship:${PASSWORD}`).toString('base64')}`;
  const sent = await request.post('/insert/lines', { data: 'a line\n', headers: { authorization, 'content-type': 'text/plain' } });
  expect(sent.ok(), await sent.text()).toBe(true);
  await page.goto('/?query=line');
  await logIn(page, 'rob');
  await expect(page.getByTestId('hits')).toBeVisible();
  await page.getByTestId('view-queries').click();
  await expect(page.getByTestId('queue-limits')).toContainText('does not see queries of other users');
  await page.getByTestId('log-out').click();
  await logIn(page, 'ship');
  await expect(page.getByTestId('nothing')).toContainText('ship (ingest)');
  await page.getByTestId('log-out').click();
  await logIn(page, 'ann');
  await expect(page.getByTestId('queue-limits')).not.toContainText('queries of other users');
});

for (const [device, viewport] of Object.entries({ desk: { width: 1360, height: 900 }, phone: { width: 390, height: 780 } })) {
  for (const scheme of ['light', 'dark'] as const) {
    test(`the login has no finding of axe-core, ${device}, ${scheme}`, async ({ page }) => {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme: scheme });
      await page.goto('/');
      await logIn(page, 'ann', 'wrong');
      await expect(page.getByTestId('login-error')).toBeVisible();
      const found = await new AxeBuilder({ page }).analyze();
      expect(found.violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')).toEqual([]);
      const sideways = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
      expect(sideways).toBe(false);
      await logIn(page, 'ann');
      await expect(page.getByTestId('log-out')).toBeVisible();
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
      expect(wide).toBe(false);
    });
  }
}
