// From the start page to a view that names the cause of an incident, by clicks alone. They are counted.

import type { Locator, Page } from '@playwright/test';
import { expect, expectAccessible, expectNoSidewaysScrolling, expectQuery, settled, test, watch } from './common';
import { INCIDENTS, QUIET_WINDOWS, quietRange, rangeOf, SEED, send, sendQuiet, type Incident } from './incidents';

// The last tests compare all of them.
test.describe.configure({ mode: 'default' });

/** With more clicks than this, a cause counts as not found. */
const CLICKS_MAX = 3;
/** Incidents of these kinds that must be found so, as a share. */
const FOUND_MIN = 12 / 15;
/** Cards and rare lines that are looked at. */
const LOOKED_AT = 3;
const counts = new Map<string, number | null>();

test.beforeEach(({ page }) => watch(page));

async function openDifferences(page: Page, from: Locator): Promise<void> {
  await from.click();
  await settled(page);
  await expect(page.getByTestId('differences')).toHaveAttribute('aria-busy', 'false');
}

/** The first card, or the first rare line, that names the cause. */
async function naming(page: Page, incident: Incident): Promise<Locator | null> {
  for (const all of [page.getByTestId('story'), page.getByTestId('unseen').getByTestId('difference')]) {
    const texts = await all.allInnerTexts();
    const at = texts.slice(0, LOOKED_AT).findIndex((text) => incident.cause.every((part) => part.test(text)));
    if (at >= 0) return all.nth(at);
  }
  return null;
}

for (const [place, incident] of INCIDENTS.entries()) {
  test(`${incident.name} is found by clicks`, async ({ page, request }) => {
    counts.set(incident.name, null);
    await send(request, place);
    await page.goto(`/?${rangeOf(place)}`);
    await settled(page);
    let clicks = 1;
    let way = page.getByTestId('changed-toggle');
    if (incident.stands) {
      await expect(page.getByTestId('stands-done')).toBeAttached();
      const chip = page.getByTestId('stands-out').getByRole('button').filter({ hasText: incident.stands }).first();
      if ((await chip.count()) > 0) way = chip;
    }
    await openDifferences(page, way);
    if (place === 0) {
      await expectAccessible(page);
      await page.setViewportSize({ width: 390, height: 800 });
      await expectNoSidewaysScrolling(page);
      await page.setViewportSize({ width: 1360, height: 900 });
      await settled(page);
    }
    let card = await naming(page, incident);
    // Numbers that moved do not say why: the lines beyond have something in common.
    const numbers = page.locator('[data-testid=difference][data-kind=number]').first();
    if (card === null && (await numbers.count()) > 0) {
      clicks++;
      await openDifferences(page, numbers.getByTestId('difference-common'));
      card = await naming(page, incident);
    }
    if (card === null) {
      const seen = await page.getByTestId('differences').innerText();
      test.info().annotations.push({ type: 'not found', description: `seed ${SEED}` });
      console.log(`seed ${SEED}: ${incident.name} is not named by:\n${seen.slice(0, 2_000)}`);
      return;
    }
    // Its lines are one more click away.
    await card.getByTestId('difference-lines').or(card.getByTestId('cause-lines')).first().click();
    await settled(page);
    await expect(page.getByTestId('line-row').first()).toBeVisible();
    counts.set(incident.name, clicks + 1);
  });
}

test('differences that are the same lines are one card, and the first one is marked', async ({ page, request }) => {
  // Lines may come twice: that changes no share.
  await send(request, 0);
  await page.goto(`/?${rangeOf(0)}`);
  await settled(page);
  await openDifferences(page, page.getByTestId('changed-toggle'));
  await expect(page.getByTestId('story').filter({ hasText: 'No space left' })).toContainText('came first');
  await expect(page.getByTestId('came-first')).toHaveCount(1);
  expect(await page.getByTestId('story').count()).toBeLessThanOrEqual(3);
});

test('a story and its lines go into a notebook', async ({ page, request }) => {
  await send(request, 0);
  await page.goto(`/?${rangeOf(0)}`);
  await settled(page);
  await openDifferences(page, page.getByTestId('changed-toggle'));
  const story = page.getByTestId('story').filter({ hasText: 'No space left' });
  await story.getByTestId('story-note').click();
  await expect(page.getByTestId('note-text')).toHaveValue(/No space left/);
  await page.getByTestId('note-target').selectOption('');
  await page.getByTestId('note-notebook-title').fill('The full disk');
  await page.getByTestId('note-yes').click();
  await page.getByTestId('noted-open').click();
  await expect(page.getByTestId('notebook-name')).toHaveText('The full disk');
  await expect(page.getByTestId('cell')).toHaveCount(2);
  await expect(page.getByTestId('cell').first()).toContainText('No space left');
  await expect(page.getByTestId('cell').nth(1).getByTestId('cell-lines').locator('li').first()).toContainText('No space left');
});

test('the lines of a value are compared with others, and back', async ({ page, request }) => {
  await send(request, 5);
  await page.goto(`/?${rangeOf(5)}&query=${encodeURIComponent('"request done"')}`);
  await settled(page);
  await page.getByTestId('line-row').first().locator('[data-testid="chip"][data-value-of="upstream"]').click({ button: 'right' });
  await openDifferences(page, page.getByTestId('value-compare'));
  await expect(page.getByTestId('differences')).toContainText('upstream:=');
  await expectQuery(page, /upstream:\* \| differences where \(upstream:=/);
  await page.getByTestId('changed-toggle').click();
  await settled(page);
  await expect(page.getByTestId('line-row').first()).toBeVisible();
  // The same from the panel of fields, where the value that was chosen has others to compare with.
  const facet = page.locator('[data-testid="facet"][data-field="status"] li').filter({ hasText: '404' });
  await facet.getByTestId('facet-value').click();
  await settled(page);
  await openDifferences(page, facet.getByTestId('facet-value-compare'));
  await expectQuery(page, /status:\* \| differences where \(status:="404"\)$/);
});

test('of incidents of these kinds, four in five are named within three clicks', () => {
  const told = [...counts].map(([name, clicks]) => `${name}: ${clicks ?? 'not found'}`);
  console.log(`seed ${SEED}, clicks to the raw lines of the cause: ${told.join('; ')}`);
  expect(counts.size).toBe(INCIDENTS.length);
  const found = [...counts.values()].filter((clicks) => clicks !== null && clicks <= CLICKS_MAX);
  expect(found.length / counts.size, `seed ${SEED}: ${told.join('; ')}`).toBeGreaterThanOrEqual(FOUND_MIN);
});

/**
 * Quiet windows with a card. Five in a hundred are allowed by design, about one in a hundred was seen: more than two of
 * fifteen would come once in thousands of runs.
 */
const NOISY_MAX = 2;

test('a window in which nothing happened shows no card', async ({ page, request }) => {
  await sendQuiet(request);
  const shown: string[] = [];
  for (let place = 0; place < QUIET_WINDOWS; place++) {
    await page.goto(`/?${quietRange(place)}`);
    await settled(page);
    await openDifferences(page, page.getByTestId('changed-toggle'));
    const cards = await page.getByTestId('story').allInnerTexts();
    if (cards.length > 0) shown.push(cards.join('\n'));
  }
  if (shown.length > 0) console.log(`seed ${SEED}, quiet windows with a card:\n${shown.join('\n---\n')}`);
  expect(shown.length, `seed ${SEED}`).toBeLessThanOrEqual(NOISY_MAX);
});
