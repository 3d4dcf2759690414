import { expect, test } from 'vitest';
import type { Found, StandsOut } from '../../src/lib/api/standsOut';
import { changedOfFound, hasShortHistory, incidentsOf, INCIDENTS_MAX, isMore, linesOfFound, timeBeside, whyOwnList } from '../../src/lib/lines/found';

const MINUTE_MS = 60_000;
const NOW_MS = Date.parse('2026-01-31T12:00:00Z');

function found(id: number, sinceMinutes: number, more: Partial<Found> = {}): Found {
  return {
    id,
    kind: 'silent',
    field: 'service',
    value: 'shop',
    filter: '"service":="shop"',
    since: new Date(NOW_MS - sinceMinutes * MINUTE_MS).toISOString(),
    until: null,
    seen: 0,
    expected: 40,
    interval_s: 60,
    history_s: 90_000,
    reason: 'no lines for 5m, where about 40 a minute are usual',
    part_of: null,
    ...more,
  };
}

const HOUR = { startMs: NOW_MS - 60 * MINUTE_MS, endMs: NOW_MS };

test('parts stand with their incident, and what lasts comes first', () => {
  const ended = found(1, 10, { until: new Date(NOW_MS - 5 * MINUTE_MS).toISOString() });
  const incidents = incidentsOf([ended, found(2, 30), found(3, 29, { part_of: 2 }), found(4, 20, { part_of: 99 })], HOUR, NOW_MS);
  expect(incidents.map((one) => [one.found.id, one.parts.map((part) => part.id)])).toEqual([
    [4, []],
    [2, [3]],
    [1, []],
  ]);
});

test('what is not in the range is left out, and there is a limit', () => {
  const before = found(1, 200, { until: new Date(NOW_MS - 100 * MINUTE_MS).toISOString() });
  expect(incidentsOf([before], HOUR, NOW_MS)).toEqual([]);
  expect(incidentsOf([found(1, 200)], HOUR, NOW_MS)).toHaveLength(1);
  const many = Array.from({ length: 30 }, (_, at) => found(at, at + 1));
  expect(incidentsOf(many, HOUR, NOW_MS)).toHaveLength(INCIDENTS_MAX);
});

test('its lines are shown with some time before, and not for days', () => {
  expect(linesOfFound(found(1, 5), NOW_MS)).toEqual({ startMs: NOW_MS - 15 * MINUTE_MS, endMs: NOW_MS + MINUTE_MS });
  expect(linesOfFound(found(1, 1_000), NOW_MS).endMs).toBe(NOW_MS - 880 * MINUTE_MS);
  expect(changedOfFound(found(1, 0), NOW_MS)).toEqual({ startMs: NOW_MS, endMs: NOW_MS + MINUTE_MS });
  expect(changedOfFound(found(1, 100), NOW_MS).endMs).toBe(NOW_MS - 90 * MINUTE_MS);
});

test('a finding says its direction and whether little is known', () => {
  expect([isMore(found(1, 5)), isMore(found(1, 5, { seen: 90 }))]).toEqual([false, true]);
  expect([hasShortHistory(found(1, 5)), hasShortHistory(found(1, 5, { history_s: 3_600 }))]).toEqual([false, true]);
});

test('the page looks for itself only where the server does not know the lines', () => {
  const since = new Date(NOW_MS - 2_000 * MINUTE_MS).toISOString();
  const watching: StandsOut = { state: 'watching', since, findings: [] };
  const day = { startMs: NOW_MS - 1_441 * MINUTE_MS, endMs: NOW_MS };
  expect(whyOwnList(watching, HOUR, NOW_MS, false)).toBeNull();
  const reasons: [StandsOut | null, typeof HOUR, boolean, RegExp][] = [
    [watching, HOUR, true, /this query/],
    [null, HOUR, false, /does not watch/],
    [{ state: 'off', findings: [] }, HOUR, false, /does not watch/],
    [{ ...watching, state: 'learning' }, HOUR, false, /still learns/],
    [watching, day, false, /begins before/],
    [{ ...watching, since: new Date(NOW_MS - 30 * MINUTE_MS).toISOString() }, HOUR, false, /begins before/],
    [{ ...watching, since: null }, HOUR, false, /begins before/],
  ];
  for (const [answer, span, restricts, reason] of reasons) expect(whyOwnList(answer, span, NOW_MS, restricts)).toMatch(reason);
});

test('a time of another day has its date', () => {
  expect(timeBeside(Date.parse('2026-01-31T10:20:30Z'), NOW_MS, true)).toBe('10:20:30');
  expect(timeBeside(Date.parse('2026-01-30T23:59:59Z'), NOW_MS, true)).toBe('2026-01-30 23:59:59');
});
