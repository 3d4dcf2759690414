import { defineConfig } from '@playwright/test';
import { hasBinary, servesPage } from './e2e/servers.ts';

// A test waits for conditions. These limits end what hangs; no test that is right comes near them,
// on however slow a machine.
const TEST_MS = 600_000;
const EXPECT_MS = 240_000;

export default defineConfig({
  testDir: 'e2e',
  // The login needs a server with users.
  testIgnore: hasBinary ? [] : ['**/login.spec.ts'],
  timeout: TEST_MS,
  expect: { timeout: EXPECT_MS },
  fullyParallel: false,
  // e2e/servers.ts starts a server for each worker; one that runs already has one store, which
  // tests cannot share.
  workers: process.env['LOGINSON_URL'] === undefined ? 2 : 1,
  // Three tests still fail now and then beside a busy machine (bars drawn in the middle of a refresh,
  // rows of a program, a dashboard that is edited twice). The list calls a test that needed its
  // second chance flaky; what fails twice is wrong.
  retries: 1,
  reporter: [['list']],
  ...(servesPage ? { globalSetup: './e2e/build.ts' } : {}),
  use: {
    actionTimeout: EXPECT_MS,
    navigationTimeout: EXPECT_MS,
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
});
