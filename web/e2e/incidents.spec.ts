// From the start page to a view that names the cause of an incident, by clicks alone. They are counted.

import type { Locator } from '@playwright/test';
import { expect, expectAccessible, expectNoSidewaysScrolling, settled, test, watch } from './common';
import { INCIDENTS, rangeOf, send } from './incidents';

// The last test compares all of them.
test.describe.configure({ mode: 'default' });

const CLICKS_MAX = 5;
const counts: number[] = [];

test.beforeEach(({ page }) => watch(page));

for (const [place, incident] of INCIDENTS.entries()) {
  test(`${incident.name} is found by clicks`, async ({ page, request }) => {
    await send(request, place);
    let clicks = 0;
    const click = async (locator: Locator): Promise<void> => {
      await locator.click();
      clicks++;
      await settled(page);
    };
    const named = page.getByTestId('difference').filter({ hasText: incident.cause[0] as RegExp }).filter({ hasText: (incident.cause[1] ?? incident.cause[0]) as RegExp });

    await page.goto(`/?${rangeOf(place)}`);
    await settled(page);
    await click(incident.stands ? page.getByTestId('standing').filter({ hasText: incident.stands }) : page.getByTestId('changed-toggle'));
    await expect(page.getByTestId('difference').first()).toBeVisible();
    if (place === 0) {
      await expectAccessible(page);
      await page.setViewportSize({ width: 390, height: 800 });
      await expectNoSidewaysScrolling(page);
      await page.setViewportSize({ width: 1360, height: 900 });
      await settled(page);
    }
    // Numbers that moved do not say why: the lines beyond have something in common.
    if ((await named.count()) === 0) await click(page.locator('[data-testid=difference][data-kind=number]').first().getByTestId('difference-common'));
    await expect(named.first()).toBeVisible();
    // The cause is among the first, and no other is far above it.
    const all = await page.getByTestId('difference').allInnerTexts();
    const at = all.findIndex((text) => incident.cause.every((part) => part.test(text)));
    expect(at, all.slice(0, 5).join('\n---\n')).toBeLessThan(3);
    // Its lines are one more click away.
    await click(named.first().getByTestId('difference-lines'));
    await expect(page.getByTestId('line-row').first()).toBeVisible();
    expect(clicks).toBeLessThanOrEqual(CLICKS_MAX);
    counts.push(clicks);
  });
}

test('the lines of a value are compared with others, and back', async ({ page, request }) => {
  await send(request, 5);
  await page.goto(`/?${rangeOf(5)}&query=${encodeURIComponent('"request done"')}`);
  await settled(page);
  await page.getByTestId('line-row').first().locator('[data-testid="chip"][data-value-of="upstream"]').click({ button: 'right' });
  await page.getByTestId('value-compare').click();
  await settled(page);
  await expect(page.getByTestId('differences')).toContainText('upstream:=');
  await page.getByTestId('changed-toggle').click();
  await settled(page);
  await expect(page.getByTestId('line-row').first()).toBeVisible();
});

test('the median is three clicks, with the raw lines', () => {
  const sorted = [...counts].sort((a, b) => a - b);
  console.log(`clicks to the raw lines of the cause: ${counts.join(', ')}`);
  expect(sorted.length).toBe(INCIDENTS.length);
  expect(sorted[sorted.length >> 1]).toBeLessThanOrEqual(3);
});
