// Dashboards: made from the chart of a query, edited in place, saved, exported and imported.

import { readFileSync } from 'node:fs';
import type { Page } from '@playwright/test';
import { expect, expectAccessible, expectNoSidewaysScrolling, expectQuery, real, settled, test, TYPE, watch } from './common';
import { hasBinary, mails } from './servers';

const OVER_TIME = `${TYPE}:="access" | stats by (_time:5m, status) count() n`;

test.beforeEach(async ({ page, request }) => {
  watch(page);
  const answer = await request.get('/api/v1/dashboards');
  for (const { id } of ((await answer.json()) as { dashboards: { id: string }[] }).dashboards) await request.delete(`/api/v1/dashboards/${id}`);
});

/** From the chart of a query to a new dashboard with one panel. */
async function made(page: Page, query = OVER_TIME): Promise<void> {
  await page.goto(`/?range=1h&chart=bars&query=${encodeURIComponent(query)}`);
  await settled(page);
  await page.getByTestId('add-to-dashboard').click();
  await page.getByTestId('add-target').selectOption('');
  await page.getByTestId('add-dashboard-title').fill('Web servers');
  await page.getByTestId('add-title').fill('Answers');
  await page.getByTestId('add-yes').click();
  await expect(page.getByTestId('dashboard-name')).toHaveText('Web servers');
  await expect(page.getByTestId('panel')).toHaveCount(1);
}

const panel = (page: Page, at: number) => page.getByTestId('panel').nth(at);

/** Writes the query of the panel that is edited. */
async function writeQuery(page: Page, at: number, text: string): Promise<void> {
  const box = panel(page, at).getByTestId('panel-query');
  await expect(box).toHaveAttribute('data-ready', 'true');
  await box.locator('.cm-content').focus();
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.insertText(text);
}

test.describe('dashboards', () => {
  test('the chart of a query becomes a panel, which draws the same and leads back', async ({ page }) => {
    await made(page);
    const chart = panel(page, 0).getByTestId('time-chart');
    await expect(chart).toHaveAttribute('data-kind', 'bars');
    await expect(chart).toHaveAttribute('data-stack', 'stacked');
    await page.reload();
    await expect(panel(page, 0)).toContainText('Answers');
    await expect(chart).toBeVisible();
    await panel(page, 0).getByTestId('panel-open').click();
    await expectQuery(page, OVER_TIME);
    await expect(page.getByTestId('chart-view')).toHaveAttribute('data-kind', 'bars');
  });

  test('panels are added, changed, moved, removed and saved', async ({ page }) => {
    await made(page);
    await page.getByTestId('dashboard-edit').click();
    await page.getByTestId('panel-add').click();
    await expect(page.getByTestId('panel')).toHaveCount(2);
    const second = panel(page, 1);
    await second.getByTestId('panel-title').fill('Slowest');
    await writeQuery(page, 1, `${TYPE}:="json" duration_ms:* | stats by (path) quantile(0.99, duration_ms) p99_ms`);
    await second.getByTestId('panel-apply').click();
    await second.getByTestId('kind-top').click();
    await expect(second.getByTestId('top-list')).toBeVisible();
    await second.getByTestId('panel-width').selectOption('12');
    await second.getByTestId('panel-back').click();
    await expect(panel(page, 0).getByTestId('panel-title')).toHaveValue('Slowest');
    await page.getByTestId('dashboard-save').click();
    await expect(page.getByTestId('dashboard-save')).toHaveCount(0);
    await page.reload();
    await expect(panel(page, 0)).toContainText('Slowest');
    await expect(panel(page, 0).getByTestId('top-list')).toBeVisible();
    await expect(panel(page, 1)).toContainText('Answers');

    await page.getByTestId('dashboard-edit').click();
    await panel(page, 0).getByTestId('panel-edit').click();
    await panel(page, 0).getByTestId('panel-remove').click();
    await panel(page, 0).getByTestId('panel-remove-yes').click();
    await expect(page.getByTestId('panel')).toHaveCount(1);
    await page.getByTestId('dashboard-discard').click();
    await expect(page.getByTestId('panel')).toHaveCount(2);
  });

  test('panels are dragged, resized, and edited one at a time', async ({ page }) => {
    await made(page);
    await page.getByTestId('dashboard-edit').click();
    await page.getByTestId('panel-add').click();
    await panel(page, 1).getByTestId('panel-title').fill('Second');
    // Opening one panel closes the other.
    await expect(page.getByTestId('panel-query')).toHaveCount(1);
    await panel(page, 0).getByTestId('panel-edit').click();
    await expect(page.getByTestId('panel-query')).toHaveCount(1);
    await panel(page, 0).getByTestId('panel-edit').click();
    await expect(page.getByTestId('panel-query')).toHaveCount(0);

    const drag = async (handle: ReturnType<typeof panel>, x: number, y: number): Promise<void> => {
      const box = (await handle.boundingBox())!;
      await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
      await page.mouse.down();
      await page.mouse.move(x, y, { steps: 4 });
      await page.mouse.up();
    };
    const first = (await panel(page, 0).boundingBox())!;
    await drag(panel(page, 1).getByTestId('panel-drag'), first.x + 60, first.y + 60);
    await expect(panel(page, 0)).toContainText('Second');
    await expect(panel(page, 1)).toContainText('Answers');
    // The corner makes it wider and higher; the arrow keys do the same.
    const before = (await panel(page, 0).boundingBox())!;
    await drag(panel(page, 0).getByTestId('panel-resize'), before.x + before.width * 1.5, before.y + before.height + 120);
    const after = (await panel(page, 0).boundingBox())!;
    expect(after.width).toBeGreaterThan(before.width * 1.3);
    expect(after.height).toBeGreaterThan(before.height + 60);
    await panel(page, 0).getByTestId('panel-resize').focus();
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowUp');
    await expect.poll(async () => (await panel(page, 0).boundingBox())!.width).toBeLessThan(after.width);
    await panel(page, 0).getByTestId('panel-drag').focus();
    await page.keyboard.press('ArrowRight');
    await expect(panel(page, 1)).toContainText('Second');
    await page.getByTestId('dashboard-save').click();
    await expect(page.getByTestId('dashboard-save')).toHaveCount(0);
    await page.reload();
    await expect(panel(page, 1)).toContainText('Second');
  });

  test('a drag in one panel changes the range of all, and a click leads to lines', async ({ page }) => {
    // Each bucket has lines, also one that is cut by the drag.
    await made(page, `${TYPE}:="access" | stats by (_time:5m) count() n`);
    const over = panel(page, 0).locator('.u-over');
    await expect(over).toBeVisible();
    const box = (await over.boundingBox())!;
    await page.mouse.move(box.x + box.width * 0.4, box.y + 30);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, box.y + 40, { steps: 5 });
    await page.mouse.up();
    await expect(page).toHaveURL(/view=dashboards.*from=.*&to=/);
    await panel(page, 0).getByTestId('time-chart').focus();
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await expect(page).toHaveURL(/query=_type/);
    await expect(page.getByTestId('line-row').first()).toBeVisible();
  });

  test('a change by somebody else is not overwritten', async ({ page }) => {
    await made(page);
    const { id, version, ...rest } = await page.evaluate(async () => (await (await fetch('/api/v1/dashboards/web-servers')).json()) as { id: string; version: number; title: string; panels: unknown[] });
    const body = JSON.stringify({ ...rest, id, version, title: 'Other' });
    expect(await page.evaluate(async (text) => (await fetch('/api/v1/dashboards/web-servers', { method: 'PUT', body: text, headers: { 'content-type': 'application/json' } })).status, body)).toBe(200);
    await page.getByTestId('dashboard-edit').click();
    await page.getByTestId('dashboard-title').fill('Mine');
    await page.getByTestId('dashboard-title').blur();
    await page.getByTestId('dashboard-save').click();
    await expect(page.getByTestId('dashboard-outdated')).toBeVisible();
    await page.getByTestId('dashboard-discard').click();
    await expect(page.getByTestId('dashboard-name')).toHaveText('Other');
  });

  test('a dashboard is exported, imported as another one, and deleted', async ({ page }) => {
    await made(page);
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByTestId('dashboard-export').click()]);
    expect(download.suggestedFilename()).toBe('web-servers.json');
    const path = await download.path();
    await page.getByTestId('all-dashboards').click();
    await page.getByTestId('import-file').setInputFiles(path);
    await expect(page).toHaveURL(/dashboard=web-servers-2/);
    await expect(panel(page, 0).getByTestId('time-chart')).toBeVisible();
    await page.getByTestId('dashboard-delete').click();
    await page.getByTestId('dashboard-delete-yes').click();
    await expect(page.getByTestId('dashboard-row')).toHaveCount(1);
    await page.getByTestId('import-file').setInputFiles({ name: 'x.json', mimeType: 'application/json', buffer: Buffer.from('{"title":"x","panels":[{}]}') });
    await expect(page.getByTestId('import-refusal')).toContainText('Panel 1 has neither “query” nor “text”');
  });

  test('a dashboard is saved as one document, for a post-mortem', async ({ page }) => {
    await made(page);
    await expect(panel(page, 0).getByTestId('time-chart')).toBeVisible();
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByTestId('dashboard-document').click()]);
    expect(file.suggestedFilename()).toBe('web-servers.html');
    const text = readFileSync(await file.path(), 'utf8');
    expect(text).toContain('<h1>Web servers</h1>');
    expect(text).toContain('<h2>Answers</h2><img alt="Answers" src="data:image/png;base64,');
    expect(text).toContain('stats by (_time:5m, status) count() n');
    expect(text).not.toContain('<script');
  });

  test('a panel is saved as a picture and as CSV, and shows the day before', async ({ page }) => {
    await made(page);
    await expect(panel(page, 0).getByTestId('time-chart')).toBeVisible();
    const [csv] = await Promise.all([page.waitForEvent('download'), panel(page, 0).getByTestId('panel-csv').click()]);
    expect(csv.suggestedFilename()).toMatch(/\.csv$/);
    expect(readFileSync(await csv.path(), 'utf8')).toMatch(/^_time,.*\r\n\d{4}-/);
    const [png] = await Promise.all([page.waitForEvent('download'), panel(page, 0).getByTestId('panel-png').click()]);
    expect(readFileSync(await png.path()).subarray(1, 4).toString()).toBe('PNG');

    // The same query for a day earlier; its answer is put beside the chart.
    let asked = 0;
    await page.route(/\/select\/logsql\/query/, async (route) => {
      const start = new URL(route.request().url()).searchParams.get('start') ?? '';
      if (Date.parse(start) < Date.now() - 20 * 3_600_000) asked++;
      await route.continue();
    });
    await page.getByTestId('dashboard-edit').click();
    await panel(page, 0).getByTestId('panel-edit').click();
    await panel(page, 0).getByTestId('kind-line').click();
    await panel(page, 0).getByTestId('chart-before').selectOption('1d');
    await expect.poll(() => asked).toBeGreaterThan(0);
  });

  test('a dashboard of Grafana is imported: panels of Loki are drawn, what is left out is listed', async ({ page }) => {
    // The stand-in knows no LogQL.
    if (!real) {
      const now = Math.floor(Date.now() / 1000);
      const values = Array.from({ length: 60 }, (_, at) => [now - 3600 + at * 60, String(at % 7)]);
      await page.route('**/loki/api/v1/query_range*', (route) => route.fulfill({ json: { status: 'success', data: { resultType: 'matrix', result: [{ metric: { hostname: 'web1' }, values }] } } }));
    }
    const grafana = {
      schemaVersion: 39,
      title: `Loki ${Date.now()}`,
      templating: { list: [{ name: 'host', type: 'query', query: { field: 'hostname' } }] },
      panels: [
        { type: 'timeseries', title: 'Top', datasource: { type: 'loki' }, gridPos: { w: 12, h: 8 }, targets: [{ expr: `topk(3, sum by (hostname) (rate({${TYPE}="access",hostname=~"$host"}[$__auto])))` }] },
        { type: 'timeseries', title: 'Whole', gridPos: { w: 12, h: 8 }, targets: [{ expr: `_stream:{hostname="$host"} ${TYPE}:="access" | stats by (_time:5m) count() lines` }] },
        { type: 'timeseries', title: 'Numbers', datasource: { type: 'prometheus' }, targets: [{ rawSql: 'up' }] },
      ],
    };
    await page.goto('/?view=dashboards&range=1h');
    await page.getByTestId('import-file').setInputFiles({ name: 'g.json', mimeType: 'application/json', buffer: Buffer.from(JSON.stringify(grafana)) });
    await expect(page.getByTestId('import-notes')).toContainText('“Numbers”');
    await page.getByTestId('dashboard-row').filter({ hasText: grafana.title }).click();
    await expect(page.getByTestId('panel')).toHaveCount(2);
    await expect(panel(page, 0).getByTestId('panel-language')).toHaveText('LogQL');
    await expect(panel(page, 0).getByTestId('time-chart')).toBeVisible();
    await expect(panel(page, 1).getByTestId('time-chart')).toBeVisible();
    await page.getByTestId('dashboard-delete').click();
    await page.getByTestId('dashboard-delete-yes').click();
  });

  test('a panel with a wrong query says so, and the others are drawn', async ({ page }) => {
    await made(page);
    await page.getByTestId('dashboard-edit').click();
    await page.getByTestId('panel-add').click();
    await writeQuery(page, 1, '* | stats by (');
    await page.keyboard.press('Enter');
    await expect(panel(page, 1).getByTestId('query-error')).toBeVisible();
    await expect(panel(page, 0).getByTestId('time-chart')).toBeVisible();
  });
});

for (const [device, viewport, colorScheme] of [['desk', { width: 1280, height: 900 }, 'light'], ['phone', { width: 390, height: 844 }, 'dark']] as const) {
  test.describe(`dashboards on a ${device}`, () => {
    test.use({ viewport, colorScheme });
    test('are accessible', async ({ page }) => {
      await made(page);
      await expect(panel(page, 0).getByTestId('time-chart')).toBeVisible();
      await expectAccessible(page);
      await expectNoSidewaysScrolling(page);
      await page.getByTestId('dashboard-edit').click();
      await expectAccessible(page);
      await expectNoSidewaysScrolling(page);
      await page.getByTestId('all-dashboards').click();
      await expect(page.getByTestId('dashboard-row')).toHaveCount(1);
      await expectAccessible(page);
    });
  });
}

if (real) test('a dashboard is sent by mail: chosen, sent now, listed, changed and deleted', async ({ page }) => {
  await made(page);
  await page.getByTestId('dashboard-mail').click();
  const dialog = page.getByTestId('mail-dialog');
  await expect(dialog.getByTestId('mail-none')).toBeVisible();
  await dialog.getByTestId('mail-addresses').fill('no address');
  await dialog.getByTestId('mail-save').click();
  await expect(dialog.getByTestId('mail-error')).toContainText('write NAME@HOST');
  await dialog.getByTestId('mail-addresses').fill('ann@example.com');
  await dialog.getByTestId('mail-every').selectOption('week');
  await dialog.getByTestId('mail-day').nth(4).check();
  await dialog.getByTestId('mail-time').fill('06:30');
  await dialog.getByTestId('mail-zone').fill('Europe/Berlin');
  await dialog.getByTestId('mail-range').fill('30m');
  await dialog.getByTestId('mail-save').click();
  const row = dialog.getByTestId('mail-row');
  await expect(row).toContainText('Each week on Monday and Friday at 06:30, Europe/Berlin, over 30m');
  await expect(row).toContainText('to ann@example.com');
  await expectAccessible(page);

  const before = mails.length;
  await row.getByTestId('mail-send').click();
  await expect(row.getByTestId('mail-sent-now')).toHaveAttribute('data-delivered', 'true');
  await expect(row.getByTestId('mail-sent')).not.toContainText('never');
  if (hasBinary) {
    const sent = mails.slice(before).find((mail) => mail.includes('ann@example.com')) ?? '';
    expect(sent).toContain('Subject: Web servers');
    expect(sent).toContain('Answers');
    expect(sent).toContain('application/pdf');
  }

  // It is there for others too, and goes with an export.
  await dialog.getByTestId('mail-close').click();
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByTestId('dashboard-export').click()]);
  const file = JSON.parse(readFileSync(await download.path(), 'utf8')) as { mails: { zone: string }[] };
  expect(file.mails.map((one) => one.zone)).toEqual(['Europe/Berlin']);
  await page.reload();
  await page.getByTestId('dashboard-mail').click();
  await row.getByTestId('mail-edit').click();
  await dialog.getByTestId('mail-every').selectOption('day');
  await dialog.getByTestId('mail-save').click();
  await expect(row).toContainText('Each day at 06:30');
  await row.getByTestId('mail-delete').click();
  await row.getByTestId('mail-delete-yes').click();
  await expect(dialog.getByTestId('mail-none')).toBeVisible();
});
