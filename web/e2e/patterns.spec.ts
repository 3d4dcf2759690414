// Patterns of messages: found by a click, and each leads to the lines that it was counted from.

import { expect, expectAccessible, settled, test, TYPE, watch } from './common';

/** A range that no new line changes. */
const END = Date.now() - 5 * 60_000;
const RANGE = `from=${new Date(END - 15 * 60_000).toISOString()}&to=${new Date(END).toISOString()}`;

test.beforeEach(({ page }) => watch(page));

test('a click shows the patterns of the lines, and a pattern its lines', async ({ page }) => {
  await page.goto(`/?${RANGE}&query=${encodeURIComponent(`${TYPE}:="syslog"`)}`);
  await settled(page);
  const all = Number((await page.getByTestId('hits').innerText()).replaceAll(/\D/g, ''));
  await page.getByTestId('patterns-toggle').click();
  await settled(page);
  await expect(page.getByTestId('patterns-toggle')).toHaveAttribute('aria-pressed', 'true');
  const rows = page.getByTestId('result-row');
  await expect(rows.nth(1)).toBeVisible();
  const counts = await rows.locator('[data-column="hits"]').evaluateAll((cells) => cells.map((cell) => Number((cell as HTMLElement).dataset['full'])));
  expect(counts.length).toBeGreaterThan(1);
  expect(counts.reduce((sum, hits) => sum + hits, 0)).toBe(all);
  expect(counts, 'most lines first').toEqual([...counts].sort((a, b) => b - a));
  await expectAccessible(page);

  // PostgreSQL writes two spaces behind the severity, of which the pattern has one.
  const spaced = rows.filter({ hasText: 'LOG: checkpoint complete' });
  for (const row of [rows.first(), spaced.first()]) {
    const hits = Number(await row.locator('[data-column="hits"]').getAttribute('data-full'));
    await row.getByTestId('pattern-lines').click();
    await settled(page);
    await expect.poll(async () => Number((await page.getByTestId('hits').innerText()).replaceAll(/\D/g, ''))).toBe(hits);
    await page.goBack();
    await settled(page);
  }
  await page.getByTestId('patterns-toggle').click();
  await settled(page);
  await expect(page.getByTestId('patterns-toggle')).toHaveAttribute('aria-pressed', 'false');
  await expect(page.getByTestId('hits')).toHaveText(new RegExp(String(all).split('').join('\\D?')));
});
