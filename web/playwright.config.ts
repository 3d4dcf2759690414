import { defineConfig } from '@playwright/test';

// LOGINSON_URL names a running server; without it the built page is tested with dev/mock.ts in
// place of a server.
const url = process.env['LOGINSON_URL'];
// With LOGINSON_PREVIEW, a port, the built page of this folder is served on it in front of that server: for tests of a
// page that is not in a binary yet.
const port = process.env['LOGINSON_PREVIEW'];
const own = port !== undefined || url === undefined ? `http://127.0.0.1:${port ?? 4173}` : null;

export default defineConfig({
  testDir: 'e2e',
  // LOGINSON_LOGIN_URL names a second server, with users.
  testIgnore: process.env['LOGINSON_LOGIN_URL'] ? [] : ['**/login.spec.ts'],
  timeout: 90_000,
  expect: { timeout: 30_000 },
  fullyParallel: false,
  workers: 1,
  // A machine that is busy with other work now and then is late once; what fails twice is wrong. The list calls a test that
  // needed its second chance flaky.
  retries: 1,
  reporter: [['list']],
  use: {
    baseURL: own ?? url,
    viewport: { width: 1360, height: 900 },
    screenshot: 'only-on-failure',
    launchOptions: {
      executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    },
  },
  ...(own === null ? {} : { webServer: { command: `npm run build && npm run preview -- --port ${port ?? 4173}`, url: `${own}/`, reuseExistingServer: true } }),
});
