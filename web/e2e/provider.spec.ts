// Logins by a real provider of OpenID Connect, the package `oidc-provider`, at a server without passwords: olga (operate),
// sam (read), and carl, whom no group lets in. Without a binary playwright.config.ts leaves this file out.

import AxeBuilder from '@axe-core/playwright';
import type { Page } from '@playwright/test';
import { expect, test, watch } from './common';

test.describe.configure({ mode: 'default' });
test.use({ ignoreHTTPSErrors: true, baseURL: async ({ providerUrl }, use) => use(providerUrl) });
test.beforeEach(({ page }) => watch(page));

/** From the page to the provider, and back to the page. */
async function logIn(page: Page, name: string): Promise<void> {
  await page.getByTestId('login-by').click();
  await page.getByPlaceholder('Enter any login').fill(name);
  await page.getByPlaceholder('and password').fill('any');
  await page.getByRole('button', { name: 'Sign-in' }).click();
  await page.getByRole('button', { name: 'Continue' }).click();
}

test('a login by a provider leads back to the same view, and a logout to the provider', async ({ page, context, baseURL }) => {
  const at = '/?view=queries&range=6h';
  await page.goto(at);
  await expect(page.getByTestId('login-by')).toHaveText('Log in with corp');
  await expect(page.getByTestId('login-name')).toHaveCount(0);
  await logIn(page, 'olga');
  await expect(page.getByTestId('queue-table')).toBeVisible();
  expect(page.url()).toBe(new URL(at, baseURL).href);
  await expect(page.getByTestId('who')).toHaveText('olga@corp (operate)');
  const cookies = await context.cookies(baseURL);
  expect(cookies.map(({ httpOnly, secure, sameSite }) => ({ httpOnly, secure, sameSite }))).toEqual([{ httpOnly: true, secure: true, sameSite: 'Strict' }]);
  // Once the session is a second old, the provider is asked at each request whether it may go on.
  await page.reload();
  await expect(page.getByTestId('who')).toHaveText('olga@corp (operate)');
  await page.getByTestId('log-out').click();
  await page.getByRole('button', { name: 'Yes, sign me out' }).click();
  await expect(page.getByTestId('login-by')).toBeVisible();
  expect(new URL(page.url()).origin).toBe(new URL(baseURL as string).origin);
  // The provider asks for the login again: its session is over, too.
  await logIn(page, 'sam');
  await expect(page.getByTestId('who')).toHaveText('sam@corp (read)');
});

test('who is in no group is refused, and told so', async ({ page }) => {
  await page.goto('/');
  await logIn(page, 'carl');
  await expect(page.getByRole('heading')).toHaveText('Not logged in');
  await expect(page.locator('main')).toContainText('no group of carl@corp may log in here');
  await page.getByRole('link', { name: 'Back to the login' }).click();
  await expect(page.getByTestId('login-by')).toBeVisible();
});

test('the login with a provider has no finding of axe-core', async ({ page }) => {
  await page.goto('/');
  await expect(page.getByTestId('login-by')).toBeVisible();
  const found = await new AxeBuilder({ page }).analyze();
  expect(found.violations.filter(({ impact }) => impact === 'serious' || impact === 'critical')).toEqual([]);
});
