// Programs from the first line of text to their rows: the test beside the editor, saving, the chart, mistakes at their
// lines, switching off, and computing a past interval again.

import type { APIRequestContext, Page } from '@playwright/test';
import { count, drawnBar, expect, expectQuery, lastMinutes, real, settled, test, TYPE, watch } from './common';

const NAME = 'e2e-status';
/** Lines of each status, of the access log that arrives all the time. A bucket of one second has rows at once. */
const TEXT = ['# Lines of each status.', '# type: access', '# bucket: 1s', '# fields: status', 'NR == 1 { next }', '{ lines[$1]++ }', 'END {', '    for (status in lines)', '        print "status=\\"" status "\\" lines=" lines[status]', '}', ''].join('\n');
const OTHER = 'e2e-other';

async function forget(request: APIRequestContext): Promise<void> {
  for (const name of [NAME, OTHER]) await request.delete(`/api/v1/programs/${name}`);
}

async function save(request: APIRequestContext, name: string, text: string, language = 'awk'): Promise<void> {
  const answer = await request.post(`/api/v1/programs/${name}?language=${language}`, { data: text, headers: { 'content-type': 'text/plain' } });
  expect(answer.ok(), await answer.text()).toBe(true);
}

test.beforeAll(async ({ request }) => {
  await forget(request);
});
test.afterAll(({ request }) => forget(request));
test.beforeEach(({ page }) => watch(page));

const row = (page: Page, name: string) => page.locator(`[data-testid="program-row"][data-name="${name}"]`);

/** The test has run on the text that is there now. */
async function tested(page: Page): Promise<void> {
  await expect(page.getByTestId('test-result')).toHaveAttribute('data-running', 'false');
  await expect(page.getByTestId('test-summary')).toContainText(/matching lines? of the \d+ in the sample/);
}

async function hasRows(request: APIRequestContext, name: string): Promise<void> {
  await expect
    .poll(async () => {
      const answer = await request.get(`/api/v1/programs/${name}/rows?${lastMinutes(5)}&limit=100`);
      return answer.ok() ? ((await answer.json()) as { rows: unknown[] }).rows.length : -1;
    }, { message: 'the program makes no rows' })
    .toBeGreaterThan(0);
}

test('a program is written, tested, saved, and draws a chart', async ({ page, request }) => {
  await forget(request);
  // A short range, so that a bar is one second and soon over.
  await page.goto('/?view=programs&part=edit&range=2m&example=access-status');
  // The example is tested on lines of the store without a click.
  await expect(page.getByTestId('program-text')).toHaveValue(/# type: access/);
  await expect(page.getByTestId('sample')).not.toHaveValue('');
  await expect(page.getByTestId('test-rows-row').first()).toBeVisible();
  await page.getByTestId('program-name').fill(NAME);
  await page.getByTestId('program-text').fill(TEXT);
  await expect(page.locator('[data-testid="test-rows-row"] [data-field="status"]').first()).toHaveText(/^\d{3}$/);
  await tested(page);
  await page.getByTestId('program-save').click();
  await expect(page).toHaveURL(new RegExp(`program=${NAME}`));
  await expect(page.getByTestId('program-state')).toBeVisible();

  // The first rows are shown without a click. They may stand in the bar of now, which is pale until
  // its time is over; a refresh shows it whole.
  await expect(page.getByTestId('rows-bar').first()).toBeAttached();
  await page.getByTestId('refresh').selectOption('5');
  const bar = page.locator('[data-testid="rows-bar"][data-series="=200"]:not([data-part])').first();
  await drawnBar(page.getByTestId('rows-chart'), bar, page.locator('[data-testid="rows-legend"][data-series="=200"]'));
  await expect(page.getByTestId('rows-value')).toHaveValue('lines');
  await expect(page.getByTestId('rows-split')).toHaveValue('status');
  await expect(page.getByTestId('latest-rows-row').first()).toBeVisible();
  // The choice is in the link.
  await page.getByTestId('rows-split').selectOption('');
  await expect(page).toHaveURL(/split=(&|$)/);
  await page.reload();
  await expect(page.getByTestId('rows-bar').first()).toHaveAttribute('data-series', '=lines');

  // Its rows become a panel of a dashboard.
  await page.getByTestId('rows-way').selectOption('moving');
  await page.getByTestId('rows-to-dashboard').click();
  await page.getByTestId('add-target').selectOption('');
  await page.getByTestId('add-dashboard-title').fill(`Rows of ${NAME}`);
  await page.getByTestId('add-title').fill('Moving average');
  await page.getByTestId('add-yes').click();
  await expect(page.getByTestId('panel')).toHaveCount(1);
  // The stand-in stores no rows of programs as lines.
  if (real) await expect(page.getByTestId('panel').getByTestId('time-chart')).toBeVisible();
  await page.goBack();
  await expect(page.getByTestId('rows-bar').first()).toBeAttached();

  // From a bucket to its lines.
  await page.getByTestId('latest-rows-bucket').first().click();
  await settled(page);
  await expectQuery(page, `${TYPE}:="access"`);
  await expect(page.getByTestId('line-row').first()).toBeVisible();
  await page.goBack();
  await expect(page.getByTestId('rows-chart')).toBeVisible();
});

test('a mistake is shown at its line, and so is one that saving finds', async ({ page, request }) => {
  await save(request, NAME, TEXT);
  await page.goto(`/?view=programs&program=${NAME}&part=edit&range=15m`);
  await expect(page.getByTestId('test-rows-row').first()).toBeVisible();
  await expect(page.getByTestId('program-save')).toBeDisabled();
  const text = page.getByTestId('program-text');
  await text.fill(TEXT.replace('{ lines[$1]++ }', '{ lines[$1++ }'));
  const mark = page.getByTestId('program-text-mark').first();
  await expect(mark).toHaveAttribute('data-line', '6');
  await expect(page.getByTestId('test-faults')).toContainText('Program line 6');
  await expect(text).toHaveAttribute('aria-invalid', 'true');
  await page.getByTestId('fault-program').first().click();
  await expect(text).toBeFocused();
  expect(await text.evaluate((area: HTMLTextAreaElement) => area.value.slice(area.selectionStart, area.selectionEnd))).toBe('{ lines[$1++ }');

  await text.fill(TEXT.replace('# bucket: 1s', '# buckets: 1s'));
  await page.getByTestId('program-save').click();
  await expect(page.getByTestId('save-refusal')).toContainText('Line 3');
  await expect(page.getByTestId('program-text-mark').first()).toHaveAttribute('data-line', '3');

  // A draft outlives a change of the view.
  await page.getByTestId('view-status').click();
  await page.getByTestId('view-programs').click();
  await row(page, NAME).getByTestId('program-open').click();
  await page.getByTestId('part-edit').click();
  await expect(text).toHaveValue(/# buckets: 1s/);
  await page.getByTestId('program-discard').click();
  await expect(text).toHaveValue(TEXT);
});

test('output that is no row is shown with the reason', async ({ page }) => {
  await page.goto('/?view=programs&part=edit&range=15m');
  await page.getByTestId('program-text').fill('# type: access\nEND { print "lines=" NR; print "just words" }\n');
  await page.getByTestId('sample-load').click();
  await expect(page.getByTestId('rejected-lines')).toContainText('just words');
  await expect(page.getByTestId('test-rows-row')).toHaveCount(1);
  await page.getByTestId('program-save').click();
  await expect(page.getByTestId('name-problem')).toContainText('needs a name');
});

test('a program in LogsQL counts too', async ({ page, request }) => {
  await page.goto('/?view=programs&part=edit&range=15m&example=status-counts');
  await expect(page.getByTestId('program-language')).toHaveValue('logsql');
  await expect(page.locator('[data-testid="test-rows-row"] [data-field="status"]').first()).toHaveText(/^\d{3}$/);
  await page.getByTestId('program-name').fill(OTHER);
  await page.getByTestId('program-save').click();
  await expect(page).toHaveURL(new RegExp(`program=${OTHER}`));
  await hasRows(request, OTHER);
  await page.getByTestId('run').click();
  await expect(page.getByTestId('rows-bar').first()).toBeAttached();
  await expect(page.getByTestId('rows-chart')).toBeVisible();
  await expect(page.getByTestId('rows-split')).toHaveValue('status');
});

test('a program is switched off and on, and deleted after a question', async ({ page, request }) => {
  await save(request, NAME, TEXT);
  await save(request, OTHER, TEXT);
  await page.goto('/?view=programs');
  await expect(row(page, NAME)).toBeVisible();
  await row(page, NAME).getByTestId('program-switch').click();
  await expect(row(page, NAME)).toHaveAttribute('data-state', 'disabled');
  await expect(row(page, NAME).getByTestId('program-state')).toHaveText(/disabled/);
  await row(page, NAME).getByTestId('program-switch').click();
  await expect(row(page, NAME)).not.toHaveAttribute('data-state', 'disabled');

  await row(page, OTHER).getByTestId('program-open').click();
  await page.getByTestId('part-edit').click();
  await page.getByTestId('program-delete').click();
  await page.getByTestId('delete-no').click();
  await expect(page.getByTestId('delete-dialog')).toHaveCount(0);
  await page.getByTestId('program-delete').click();
  await page.getByTestId('delete-yes').click();
  await expect(row(page, NAME)).toBeVisible();
  await expect(row(page, OTHER)).toHaveCount(0);
});

test('an interval is computed again, after a dry run that shows the differences', async ({ page, request }) => {
  await save(request, NAME, TEXT);
  await hasRows(request, NAME);
  // Each second of the range is a run of AWK, four times.
  await page.goto(`/?view=programs&program=${NAME}&part=edit&range=1m`);
  // A text that is not saved: every count is twice as high.
  await expect(page.getByTestId('program-text')).toHaveValue(TEXT);
  await page.getByTestId('program-text').fill(TEXT.replace('lines[$1]++', 'lines[$1] += 2'));
  await page.getByTestId('part-rerun').click();
  const changes = async (): Promise<number> => {
    await page.getByTestId('rerun-dry').click();
    return count(page.getByTestId('diff-summary').locator('[data-kind="changed"]'));
  };
  // With the saved text few rows change, if any: those of lines that came late.
  const late = await changes();
  await page.getByTestId('rerun-draft').check();
  const all = await changes();
  expect(all).toBeGreaterThan(late);
  await page.getByTestId('diff-show').selectOption('changed');
  const changed = page.locator('[data-testid="diff-row"][data-kind="changed"]').first();
  await expect(changed).toContainText('changed');
  const [before, after] = await changed.locator('mark').allInnerTexts();
  expect(Number(after)).toBe(2 * Number(before));

  await page.getByTestId('rerun-run').click();
  await expect(page.getByTestId('rerun-progress')).toHaveAttribute('data-state', 'done');
  await expect(page.getByTestId('past-runs').locator('li').first()).toBeVisible();
  // Now the rows are those of the dry run.
  expect(await changes()).toBeLessThan(all);
  await page.getByTestId('rerun-rows').click();
  await expect(page.getByTestId('rows-bar').first()).toBeAttached();
  await expect(page.getByTestId('rows-chart')).toBeVisible();
});
