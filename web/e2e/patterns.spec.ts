// Patterns of messages: found by a click, and each leads to the lines that it was counted from.

import { expect, expectAccessible, expectNoSidewaysScrolling, settled, test, TYPE, watch } from './common';

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
  const cards = page.getByTestId('pattern-card');
  await expect(cards.nth(1)).toBeVisible();
  // What is counted beside the patterns comes later: the time before, the hosts and the courses.
  await expect(cards.first().getByTestId('pattern-hosts')).toBeVisible();
  await expect(cards.first().getByTestId('pattern-course').locator('svg')).toBeVisible();
  const counts = await cards.getByTestId('pattern-hits').evaluateAll((cells) => cells.map((cell) => Number((cell as HTMLElement).dataset['full'])));
  const own = counts.filter((hits) => hits > 0);
  expect(own.length).toBeGreaterThan(1);
  expect(own, 'most lines first').toEqual([...own].sort((a, b) => b - a));
  if ((await page.getByTestId('more-patterns').count()) === 0) expect(own.reduce((sum, hits) => sum + hits, 0)).toBe(all);
  await expectAccessible(page);
  await page.setViewportSize({ width: 390, height: 800 });
  await expectNoSidewaysScrolling(page);
  await page.setViewportSize({ width: 1360, height: 900 });

  // PostgreSQL writes two spaces behind the severity, of which the pattern has one.
  const spaced = cards.filter({ hasText: 'LOG: checkpoint complete' });
  for (const card of [cards.first(), spaced.first()]) {
    const hits = Number(await card.getByTestId('pattern-hits').getAttribute('data-full'));
    await card.getByTestId('pattern-lines').click();
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

test('what stands in a pattern is a distribution, and a pattern can be ignored, compared and watched', async ({ page, request }) => {
  const token = `p${Date.now()}`;
  const [before, after] = [END - 20 * 60_000, END - 10 * 60_000];
  const line = (ms: number, message: string): string => JSON.stringify({ _time: new Date(ms).toISOString(), app: token, host: 'dns1', level: 'info', error: `code ${ms % 7}`, _msg: message });
  const lines = Array.from({ length: 60 }, (_, n) => [line(before + n, `lookup ${n} of shop.example took ${n}us`), line(after + n, `lookup ${n} of shop.example took ${n * 10}us`)]).flat();
  lines.push(...Array.from({ length: 20 }, (_, n) => [line(before + n, `cache hit ${n}`), line(after + n, `zone ${n} was transferred`)]).flat());
  const answer = await request.post('/insert/jsonline?_stream_fields=app', { data: `${lines.join('\n')}\n`, headers: { 'content-type': 'text/plain' } });
  expect(answer.ok(), await answer.text()).toBe(true);

  await page.goto(`/?${RANGE}&query=${encodeURIComponent(`app:="${token}" | patterns 200`)}`);
  await settled(page);
  const card = (text: string) => page.getByTestId('pattern-card').filter({ hasText: text });
  await expect(card('was transferred').getByTestId('pattern-turn')).toHaveText('New');
  await expect(card('cache hit').getByTestId('pattern-turn')).toHaveText('Gone');
  await page.getByTestId('pattern-sort').click();
  await expect(page.getByTestId('pattern-card').first()).toContainText('was transferred');

  await card('lookup').getByTestId('pattern-values').click();
  const place = page.locator('[data-testid="pattern-place"][data-number]').filter({ hasText: 'µs' }).or(page.locator('[data-testid="pattern-place"][data-number]').filter({ hasText: 'us' }));
  await expect(place).toContainText('590');
  await expectAccessible(page, [], '[data-testid="patterns"]');
  await place.getByTestId('place-heat').click();
  await expect(page.getByTestId('heat-chart')).toBeVisible();
  await page.goBack();
  await settled(page);

  await page.getByTestId('pattern-field').selectOption('error');
  await settled(page);
  await expect(card('code')).toBeVisible();
  await page.goBack();
  await settled(page);

  await card('lookup').getByTestId('pattern-compare').click();
  await settled(page);
  await expect(page.getByTestId('differences')).toBeVisible();
  await page.goBack();
  await settled(page);
  await card('lookup').getByTestId('pattern-ignore').click();
  await settled(page);
  await expect(card('was transferred')).toBeVisible();
  await expect(card('lookup')).toHaveCount(0);
  await card('was transferred').getByTestId('pattern-alert').click();
  await expect.poll(() => new URL(page.url()).searchParams.get('query')).toMatch(/pattern_match_full\(.*\| stats count\(\) lines$/);
});
