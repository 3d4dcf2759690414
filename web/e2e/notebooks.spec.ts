// Notebooks: texts and results with their own times, kept as they were, for a post-mortem.

import { readFileSync } from 'node:fs';
import type { Page } from '@playwright/test';
import { expect, expectAccessible, expectNoSidewaysScrolling, expectQuery, post, real, settled, test, TYPE, watch } from './common';

const OVER_TIME = `${TYPE}:="access" | stats by (_time:5m, status) count() n`;
const EVIL = '<img src=x onerror="document.title=\'evil\'">';

test.beforeEach(async ({ page, request }) => {
  watch(page);
  const answer = await request.get('/api/v1/dashboards');
  for (const { id } of ((await answer.json()) as { dashboards: { id: string }[] }).dashboards) await request.delete(`/api/v1/dashboards/${id}`);
});

/** Adds what is shown to the notebook *Outage*; the first call makes it. */
async function add(page: Page, text: string, title: string, is: 'new' | 'known' = 'known'): Promise<void> {
  await expect(page.getByTestId('notebook-dialog')).toBeVisible();
  const target = page.getByTestId('note-target');
  // The list of notebooks arrives after the dialog.
  if (is === 'known') await expect(target.locator('option', { hasText: 'Outage' })).toHaveCount(1);
  else {
    await target.selectOption('');
    await page.getByTestId('note-notebook-title').fill('Outage');
  }
  await page.getByTestId('note-text').fill(text);
  await page.getByTestId('note-title').fill(title);
  await page.getByTestId('note-yes').click();
  await expect(page.getByTestId('noted')).toContainText('Added to Outage');
}

const cell = (page: Page, at: number) => page.getByTestId('cell').nth(at);

test('a text, lines and a chart are kept in a notebook as they were, and asked again', async ({ page, request }) => {
  const mark = `notebook${Date.now()}`;
  await post(request, { _msg: `${mark} first ${EVIL}`, app_name: 'notes', level: 'error' });
  await page.goto(`/?range=1h&query=${mark}`);
  await expect(page.getByTestId('line-row')).toHaveCount(1);
  await settled(page);
  await page.getByTestId('add-to-notebook').click();
  await expectAccessible(page, [], '[data-testid="notebook-dialog"]');
  await add(page, `# Cause\n- the disk of \`db1\` was **full**\n${EVIL}`, 'What it said', 'new');
  await page.getByTestId('noted-close').click();
  // A line that comes later is not in what was kept.
  await post(request, { _msg: `${mark} second`, app_name: 'notes' });

  await page.goto(`/?range=1h&chart=bars&query=${encodeURIComponent(OVER_TIME)}`);
  await settled(page);
  await page.getByTestId('add-to-notebook').click();
  await add(page, '', 'Answers');
  await page.getByTestId('noted-open').click();
  await expect(page.getByTestId('notebook-name')).toHaveText('Outage');
  await expect(page.getByTestId('cell')).toHaveCount(3);
  await expect(cell(page, 0).locator('h2')).toHaveText('Cause');
  await expect(cell(page, 0).locator('strong')).toHaveText('full');
  await expect(cell(page, 0)).toContainText(EVIL);
  await expect(cell(page, 1).getByTestId('cell-lines').locator('li')).toHaveText([new RegExp(`${mark} first`)]);
  await expect(cell(page, 1).getByTestId('cell-as-of')).toContainText('as it was');
  await expect(cell(page, 2).getByTestId('time-chart')).toHaveAttribute('data-kind', 'bars');
  expect(await page.title()).not.toContain('evil');
  await expectAccessible(page);
  await page.setViewportSize({ width: 390, height: 800 });
  await expectNoSidewaysScrolling(page);
  await page.setViewportSize({ width: 1360, height: 900 });

  // The same range again, which ended before the second line came; then a range up to now.
  await cell(page, 1).getByTestId('cell-ask').click();
  await expect(cell(page, 1).getByTestId('cell-as-of')).not.toContainText('as it was');
  await cell(page, 1).getByTestId('cell-as-kept').click();
  await page.getByTestId('notebook-edit').click();
  await cell(page, 1).getByTestId('cell-unkeep').click();
  await cell(page, 1).getByTestId('cell-from').fill('now-1h');
  await cell(page, 1).getByTestId('cell-to').fill('now');
  await cell(page, 1).getByTestId('cell-to').blur();
  await expect(cell(page, 1).getByTestId('cell-lines').locator('li')).toHaveCount(2);
  await cell(page, 1).getByTestId('cell-down').click();
  await expect(cell(page, 2).getByTestId('cell-lines')).toBeVisible();
  await page.getByTestId('add-text-cell').last().click();
  await page.getByTestId('cell-text').last().fill('The end.');
  await page.getByTestId('notebook-save').click();
  await expect(page.getByTestId('notebook-save')).toHaveCount(0);
  await page.reload();
  await expect(page.getByTestId('cell')).toHaveCount(4);
  await expect(cell(page, 3)).toHaveText('The end.');
  await expect(cell(page, 2).getByTestId('cell-lines').locator('li')).toHaveCount(2);
  // Its query is one click away, with its range.
  await cell(page, 1).getByTestId('cell-open').click();
  await expectQuery(page, OVER_TIME);
  await expect(page.getByTestId('chart-view')).toHaveAttribute('data-kind', 'bars');
});

test('a notebook is one document without a server, is exported, imported and deleted', async ({ page }) => {
  await page.goto(`/?range=1h&chart=bars&query=${encodeURIComponent(OVER_TIME)}`);
  await settled(page);
  await page.getByTestId('add-to-notebook').click();
  await add(page, `## Answers of the shop\n${EVIL}`, 'Answers', 'new');
  await page.getByTestId('noted-open').click();
  await expect(cell(page, 1).getByTestId('time-chart')).toBeVisible();
  const [file] = await Promise.all([page.waitForEvent('download'), page.getByTestId('notebook-document').click()]);
  expect(file.suggestedFilename()).toBe('outage.html');
  const text = readFileSync(await file.path(), 'utf8');
  expect(text).toContain('<h3>Answers of the shop</h3>');
  expect(text).toContain('src="data:image/png;base64,');
  expect(text).toContain('&lt;img src=x');
  expect(text).not.toMatch(/<script|<img src=x/);

  const [download] = await Promise.all([page.waitForEvent('download'), page.getByTestId('notebook-export').click()]);
  const path = await download.path();
  const exported = JSON.parse(readFileSync(path, 'utf8')) as { cells: { kept?: { rows: unknown[] } }[] };
  expect(exported.cells[1]?.kept?.rows.length).toBeGreaterThan(0);
  await page.getByTestId('all-notebooks').click();
  await expect(page.getByTestId('dashboard-row')).toHaveCount(0);
  // Among dashboards it is refused, and says where it belongs.
  await page.getByTestId('import-file').setInputFiles(path);
  await expect(page.getByTestId('import-refusal')).toContainText('it is a notebook');
  await page.getByTestId('import-notebook').setInputFiles(path);
  await expect(page).toHaveURL(/dashboard=_notebook-outage-2/);
  await expect(cell(page, 1).getByTestId('time-chart')).toBeVisible();
  await page.getByTestId('notebook-delete').click();
  await page.getByTestId('notebook-delete-yes').click();
  await expect(page.getByTestId('notebook-row')).toHaveCount(1);
  await page.getByTestId('import-notebook').setInputFiles({ name: 'x.json', mimeType: 'application/json', buffer: Buffer.from('{"title":"x","cells":[{"kind":"code"}]}') });
  await expect(page.getByTestId('notebook-refusal')).toContainText('Cell 1 is neither a text nor a query');
});

// The stand-in for the server finds no patterns.
if (real) test('a pattern becomes a cell with its lines', async ({ page }) => {
  await page.goto(`/?range=1h&query=${encodeURIComponent(`${TYPE}:="access"`)}`);
  await settled(page);
  await page.getByTestId('patterns-toggle').click();
  await settled(page);
  const card = page.getByTestId('pattern-card').first();
  const pattern = await card.getByTestId('pattern-lines').innerText();
  await card.getByTestId('pattern-note').click();
  await expect(page.getByTestId('note-text')).toHaveValue(new RegExp(`^Pattern of [\\d,]+ lines?:`));
  await page.getByTestId('note-target').selectOption('');
  await page.getByTestId('note-notebook-title').fill('Patterns');
  await page.getByTestId('note-yes').click();
  await page.getByTestId('noted-open').click();
  await expect(cell(page, 0).locator('pre')).toHaveText(pattern);
  await expect(cell(page, 1).getByTestId('cell-lines').locator('li').first()).toBeVisible();
});

test('a change by somebody else does not vanish, and what is too large is refused', async ({ page, request }) => {
  await page.goto('/?view=dashboards');
  await page.getByTestId('new-notebook-title').fill('Shared');
  await page.getByTestId('new-notebook').click();
  await page.getByTestId('add-text-cell').click();
  await page.getByTestId('cell-text').fill('mine');
  const other = await request.put('/api/v1/dashboards/_notebook-shared', { data: { title: 'Shared', version: 1, panels: [], cells: [{ kind: 'text', text: 'theirs' }] } });
  expect(other.ok(), await other.text()).toBe(true);
  await page.getByTestId('notebook-save').click();
  await expect(page.getByTestId('notebook-outdated')).toBeVisible();
  await page.getByTestId('notebook-discard').click();
  await expect(page.getByTestId('cell')).toHaveText('theirs');

  await page.getByTestId('notebook-edit').click();
  const text = 'x'.repeat(19_900);
  for (let cells = 1; cells < 55; cells++) {
    await page.getByTestId('add-text-cell').last().click();
    await page.getByTestId('cell-text').last().fill(text);
  }
  await page.getByTestId('notebook-save').click();
  await expect(page.getByTestId('dashboards-error')).toContainText('Remove cells, or keep fewer results');
  await expect(page.getByTestId('notebook-save')).toBeVisible();
});
