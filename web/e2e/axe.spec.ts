// No serious or critical finding of axe-core, and no sideways scrolling, in any view: on a desktop
// light and dark, on a phone dark.

import type { Page } from '@playwright/test';
import { expand, expect, expectAccessible, expectNoSidewaysScrolling, settled, test, TYPE, watch } from './common';

const CHOSEN = encodeURIComponent(`${TYPE}:="access" NOT status:="200"`);
const JSON_LINES = encodeURIComponent(`${TYPE}:="json" duration_ms:*`);
const STATS = encodeURIComponent(`${TYPE}:="access" | stats by (status) count() lines`);

/**
 * A view, and what is done in it before it is checked. `part` is what it has that another view,
 * which is checked as a whole, does not have.
 */
const VIEWS: Record<string, { url: string; act: (page: Page) => Promise<void>; part?: string }> = {
  lines: {
    url: '/?range=1h',
    act: async (page) => {
      await settled(page);
      await expand(page.getByTestId('line-row').first());
      await expect(page.getByTestId('line-detail')).toBeVisible();
    },
  },
  'chosen values': {
    part: '[data-testid="facets"]',
    url: `/?range=1h&query=${CHOSEN}`,
    act: async (page) => {
      await settled(page);
      if (!(await page.getByTestId('facets').isVisible())) await page.getByTestId('facets-toggle').click();
      await expect(page.getByTestId('facet').first()).toBeVisible();
    },
  },
  'surrounding lines': {
    part: '[data-testid="context-panel"]',
    url: '/?range=1h',
    act: async (page) => {
      await settled(page);
      await expand(page.getByTestId('line-row').first());
      await page.getByTestId('show-context').click();
      await expect(page.getByTestId('context-target')).toBeVisible();
    },
  },
  'a trace': {
    part: '[data-testid="trace-panel"]',
    url: `/?range=1h&query=${JSON_LINES}&trace=app_name%3Dshop`,
    act: async (page) => {
      await expect(page.getByTestId('trace-sum')).toBeVisible();
    },
  },
  'data to add': {
    part: '[data-testid="add-data"]',
    url: '/?range=1h',
    act: async (page) => {
      await page.getByTestId('add-data-open').click();
      await expect(page.getByTestId('way-text')).toBeVisible();
    },
  },
  'the menu of a value': {
    part: '[data-testid="value-menu"]',
    url: `/?range=1h&query=${JSON_LINES}`,
    act: async (page) => {
      await settled(page);
      await page.getByTestId('chip').first().click({ button: 'right' });
      await expect(page.getByTestId('value-menu')).toBeVisible();
    },
  },
  'chosen columns': {
    part: '[data-testid="lines-table"]',
    url: `/?range=1h&query=${JSON_LINES}&cols=_level,_host,path:130,duration_ms:90`,
    act: async (page) => {
      await settled(page);
      const head = page.getByTestId('column-head').last();
      if (await head.isVisible()) await head.click();
    },
  },
  'two lines compared': {
    part: '[data-testid="compare"]',
    url: `/?range=1h&query=${JSON_LINES}`,
    act: async (page) => {
      await settled(page);
      for (const at of [1, 0]) {
        await expand(page.getByTestId('line-row').nth(at));
        // The detail of this row is there, above that of the first one.
        await expect(page.getByTestId('compare-line')).toHaveCount(2 - at);
        await page.getByTestId('compare-line').first().click();
      }
      await expect(page.getByTestId('compare')).toBeVisible();
    },
  },
  'a line in full': {
    part: '[data-testid="reader"]',
    url: `/?range=1h&query=${JSON_LINES}`,
    act: async (page) => {
      await settled(page);
      await expand(page.getByTestId('line-row').first());
      await page.getByTestId('read-line').click();
      await expect(page.getByTestId('reader')).toBeVisible();
    },
  },
  'a table': {
    url: `/?range=1h&query=${STATS}`,
    act: async (page) => {
      await settled(page);
      await expect(page.getByTestId('result-row').first()).toBeVisible();
    },
  },
  'a wrong query': {
    url: '/?query=%22open',
    act: async (page) => void (await expect(page.getByTestId('query-error')).toBeVisible()),
  },
  'no line': {
    url: '/?range=5m&query=no_line_has_this_word',
    act: async (page) => void (await expect(page.getByTestId('no-lines')).toBeVisible()),
  },
  'time range': {
    part: '[data-testid="time-range-menu"]',
    url: '/?range=1h',
    act: async (page) => {
      await settled(page);
      await page.getByTestId('time-range').click();
      await expect(page.getByTestId('time-range-menu')).toBeVisible();
    },
  },
  tail: {
    url: '/?range=1h&tail=1',
    act: async (page) => void (await expect(page.getByTestId('tail-bar')).toContainText('Live')),
  },
  summary: { url: '/?view=summary&range=1h', act: async (page) => void (await expect(page.getByTestId('summary-card').first()).toBeVisible()) },
  queries: { url: '/?view=queries', act: async (page) => void (await expect(page.getByTestId('queue-row').first()).toBeVisible()) },
  status: { url: '/?view=status', act: async (page) => void (await expect(page.getByTestId('ingest-row').first()).toBeVisible()) },
  help: {
    part: '[data-testid="help"]',
    url: '/?range=1h',
    act: async (page) => {
      await page.getByTestId('help-toggle').click();
      await expect(page.getByTestId('help')).toBeVisible();
    },
  },
};

async function open(page: Page, { url, act }: (typeof VIEWS)[string]): Promise<void> {
  watch(page);
  await page.goto(url);
  await act(page);
  await expect(page.locator('.stale')).toHaveCount(0);
}

test.describe('desk', () => {
  test.use({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' });
  for (const [name, view] of Object.entries(VIEWS)) {
    test(name, async ({ page }) => {
      await open(page, view);
      await expectAccessible(page, [], view.part);
      await expectNoSidewaysScrolling(page);
      // The other theme has other colours and nothing else.
      await page.emulateMedia({ colorScheme: 'dark' });
      await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
      await expectAccessible(page, ['color-contrast'], view.part);
    });
  }
});

test.describe('phone', () => {
  test.use({ viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
  for (const [name, view] of Object.entries(VIEWS)) {
    test(name, async ({ page }) => {
      await open(page, view);
      await expectAccessible(page, [], view.part);
      await expectNoSidewaysScrolling(page);
    });
  }
});
