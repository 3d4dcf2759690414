// Programs: no serious or critical finding of axe-core and no sideways scrolling, on a desk light and dark, on a phone
// dark; what a user of the role read sees; and what the page says about servers that cannot run programs.

import type { Page } from '@playwright/test';
import { expect, expectAccessible, expectNoSidewaysScrolling, lastMinutes, test, watch } from './common';

const NAME = 'axe-status';
const TEXT = '# type: access\n# bucket: 1s\n# fields: status\nNR == 1 { next }\n{ lines[$1]++ }\nEND { for (s in lines) print "status=\\"" s "\\" lines=" lines[s] }\n';

// The program makes its rows once for all of them.
test.describe.configure({ mode: 'default' });

test.beforeAll(async ({ request }) => {
  const answer = await request.post(`/api/v1/programs/${NAME}`, { data: TEXT, headers: { 'content-type': 'text/plain' } });
  expect(answer.ok(), await answer.text()).toBe(true);
  await expect
    .poll(async () => ((await (await request.get(`/api/v1/programs/${NAME}/rows?${lastMinutes(5)}&limit=10`)).json()) as { rows: unknown[] }).rows.length)
    .toBeGreaterThan(0);
});
test.afterAll(async ({ request }) => void (await request.delete(`/api/v1/programs/${NAME}`)));
test.beforeEach(({ page }) => watch(page));

const PROGRAM = {
  name: 'made-up', language: 'awk', type: 'access', filter: 'status:>=500 '.repeat(20), bucket_s: 10, fields: null, enabled: true, state: 'failing', problem: null,
  warnings: ['the first line names the columns; skip it with NR == 1 { next }'], lag_s: 125, buckets_waiting: 12, lines_total: 1234567, rows_total: 4321, buckets_total: 99, failures_total: 3, rejected_total: 1, last_run: null,
  last_error: { time: '2026-01-01T00:00:00Z', bucket: '2026-01-01T00:00:00Z', message: 'the program ended with status 2', stderr: `awk: cmd. line:3: fatal: ${'division by zero attempted '.repeat(9)}` },
  last_rejected: [{ line: 3, text: '<b>just words</b>', reason: 'there is no name=value' }], sandbox: [{ what: 'files', part: 'full', note: '' }],
};
const SINK = { name: 'es', kind: 'elasticsearch', of: 'rows', state: 'retrying', lag_s: 4.5, waiting_documents: 120, delivered_total: 5000, rejected_total: 2, retries_total: 7, last_error: 'connection refused', last_error_time: '2026-01-01T00:00:00Z' };

/** An answer of the server with made-up programs and sinks besides. */
async function withTroubles(page: Page): Promise<void> {
  await page.route('**/api/v1/programs', async (route) => {
    const answer = await route.fetch();
    // The page may be loaded again meanwhile.
    const body = (await answer.json().catch(() => ({ programs: [] }))) as { programs: unknown[] };
    body.programs.push(PROGRAM, { ...PROGRAM, name: 'wrong', state: 'invalid', problem: { line: 3, message: 'there is no setting `buckets`' }, last_error: null, last_rejected: [], warnings: [] });
    await route.fulfill({ response: answer, json: body }).catch(() => {});
  });
  await page.route('**/api/v1/sinks', (route) => route.fulfill({ json: { sinks: [SINK] } }));
}

const VIEWS: Record<string, { url: string; act: (page: Page) => Promise<void> }> = {
  list: {
    url: '/?view=programs',
    act: async (page) => {
      await expect(page.locator(`[data-name="${NAME}"]`)).toBeVisible();
      await withTroubles(page);
      await expect(page.getByTestId('sink-row')).toBeVisible();
      await page.locator('[data-name="made-up"] summary').click();
      await expect(page.getByTestId('program-stderr')).toContainText('division by zero');
      await expect(page.locator('[data-name="made-up"]').getByTestId('rejected-lines')).toContainText('<b>just words</b>');
      await expect(page.locator('[data-name="wrong"]')).toContainText('Line 3: there is no setting');
    },
  },
  rows: {
    url: `/?view=programs&program=${NAME}&range=15m`,
    act: async (page) => void (await expect(page.getByTestId('latest-rows-row').first()).toBeVisible()),
  },
  editor: {
    url: `/?view=programs&program=${NAME}&part=edit&range=15m`,
    act: async (page) => {
      await expect(page.getByTestId('test-rows-row').first()).toBeVisible();
      await page.getByTestId('program-text').fill(TEXT.replace('{ lines[$1]++ }', '{ lines[$1++ }'));
      await expect(page.getByTestId('program-text-mark').first()).toBeVisible();
    },
  },
  'new program': {
    url: '/?view=programs&part=edit&range=15m&example=access-status',
    act: async (page) => void (await expect(page.getByTestId('test-rows-row').first()).toBeVisible()),
  },
  rerun: {
    url: `/?view=programs&program=${NAME}&part=edit&range=1m`,
    act: async (page) => {
      await expect(page.getByTestId('program-text')).toHaveValue(TEXT);
      await page.getByTestId('program-text').fill(TEXT.replace('lines[$1]++', 'lines[$1] += 2'));
      await page.getByTestId('part-rerun').click();
      await page.getByTestId('rerun-draft').check();
      await page.getByTestId('rerun-dry').click();
      await expect(page.getByTestId('diff-row').first()).toBeVisible();
    },
  },
  'the question before deleting': {
    url: `/?view=programs&program=${NAME}&part=edit&range=15m`,
    act: async (page) => {
      await page.getByTestId('program-delete').click();
      await expect(page.getByTestId('delete-dialog')).toBeVisible();
    },
  },
  'no program': {
    url: '/?view=programs',
    act: async (page) => {
      await page.route('**/api/v1/programs', (route) => route.fulfill({ json: { interpreter: null, interpreter_error: 'no AWK was found in /usr/bin; install gawk', folder: 'programs', programs: [] } }));
      await page.reload();
      await expect(page.getByTestId('no-interpreter')).toContainText('install gawk');
      await expect(page.getByTestId('program-example')).toBeVisible();
    },
  },
};

for (const [device, viewport] of Object.entries({ desk: { width: 1280, height: 900 }, phone: { width: 390, height: 844 } })) {
  test.describe(device, () => {
    test.use({ viewport, colorScheme: device === 'desk' ? 'light' : 'dark' });
    for (const [name, view] of Object.entries(VIEWS)) {
      test(name, async ({ page }) => {
        await page.goto(view.url);
        await view.act(page);
        await expectAccessible(page);
        await expectNoSidewaysScrolling(page);
        if (device === 'phone') return;
        await page.emulateMedia({ colorScheme: 'dark' });
        await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
        await expectAccessible(page, ['color-contrast']);
      });
    }
  });
}

test('the role read sees programs and changes nothing', async ({ page }) => {
  await page.route('**/api/v1/me', (route) => route.fulfill({ json: { login: 'on', name: 'rob', role: 'read', exposed: false } }));
  const sent: string[] = [];
  page.on('request', (request) => {
    if (request.method() !== 'GET' && request.url().includes('/programs')) sent.push(request.url());
  });
  await page.goto('/?view=programs');
  await expect(page.getByTestId('programs-read-only')).toContainText('needs the role operate');
  await expect(page.locator(`[data-name="${NAME}"]`).getByTestId('program-switch')).toBeDisabled();
  await expect(page.getByTestId('program-new')).toHaveCount(0);
  await page.goto(`/?view=programs&program=${NAME}&part=edit`);
  await expect(page.getByTestId('program-text')).not.toBeEditable();
  await expect(page.getByTestId('save-why')).toContainText('role operate');
  for (const button of ['program-save', 'program-delete', 'test-run']) await expect(page.getByTestId(button)).toBeDisabled();
  await page.getByTestId('part-rerun').click();
  for (const button of ['rerun-dry', 'rerun-run']) await expect(page.getByTestId(button)).toBeDisabled();
  expect(sent).toEqual([]);
});

test('a server without programs says so, and one without a folder cannot save', async ({ page }) => {
  await page.route('**/api/v1/programs', (route) => route.fulfill({ status: 404, json: { error: 'there is no such page' } }));
  await page.goto('/?view=programs');
  await expect(page.getByTestId('programs-absent')).toContainText('This server has no programs');
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.route('**/api/v1/programs', (route) => route.fulfill({ json: { interpreter: { kind: 'gawk', path: '/usr/bin/gawk' }, folder: null, programs: [] } }));
  await page.goto('/?view=programs&part=edit&example=access-status');
  await expect(page.getByTestId('save-why')).toContainText('no folder for programs');
  await expect(page.getByTestId('program-save')).toBeDisabled();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.route('**/api/v1/programs', (route) => route.fulfill({ status: 403, json: { error: 'this needs the role read' } }));
  await page.goto('/?view=programs');
  await expect(page.getByTestId('programs-error')).toContainText('needs the role read');
});
