import { defineConfig } from '@playwright/test';
import { hasBinary, servesPage } from './e2e/servers.ts';

// A test waits for conditions. These limits end what hangs; no test that is right comes near them,
// on however slow a machine.
const TEST_MS = 600_000;
const EXPECT_MS = 240_000;

export default defineConfig({
  testDir: 'e2e',
  // These start servers of their own from the binary.
  testIgnore: hasBinary ? [] : ['**/login.spec.ts', '**/provider.spec.ts', '**/sinks.spec.ts'],
  timeout: TEST_MS,
  expect: { timeout: EXPECT_MS },
  // A worker takes the next test that is left, so that both end at the same time.
  fullyParallel: true,
  // e2e/servers.ts starts a server for each worker; one that runs already has one store, which
  // tests cannot share.
  workers: process.env['LOGINSON_URL'] === undefined ? 2 : 1,
  retries: 0,
  reporter: [['list']],
  ...(servesPage ? { globalSetup: './e2e/build.ts' } : {}),
  use: {
    // A context is a window of Chromium, which takes a second of processor time to open, as long as
    // all that a test does in it. Between tests cookies and storage are cleared, pages closed and
    // routes removed.
    reuseContext: true,
    actionTimeout: EXPECT_MS,
    navigationTimeout: EXPECT_MS,
    viewport: { width: 1360, height: 900 },
    // What pulses or fades is drawn again and again, and says nothing that is tested.
    contextOptions: { reducedMotion: 'reduce' },
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
