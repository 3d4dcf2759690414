import { describe, expect, test } from 'vitest';
import { editableInstant, formatDuration, formatInstant, formatSpan, parseDuration, parseInstant, parseRange, rangeLabel, resolveRange, timeToMs, timeToNs, zonesLabel, zoomOut } from '../../src/lib/base/time';

const NOW = Date.UTC(2026, 0, 31, 12, 0, 0);

describe('durations', () => {
  test.each([
    ['5m', 300_000],
    ['1h30m', 5_400_000],
    ['500ms', 500],
    ['1.5h', 5_400_000],
    ['1w', 604_800_000],
    ['30d', 2_592_000_000],
    ['99999999999w', null],
    [`${'9'.repeat(400)}w`, null],
    ['', null],
    ['5', null],
    ['m5', null],
    ['5 m', null],
    ['5y', null],
  ])('%s is %s ms', (text, ms) => expect(parseDuration(text)).toBe(ms));

  test.each([300_000, 5_400_000, 86_400_000, 90_061_001, 1, 604_800_000])('%s ms comes back', (ms) => {
    expect(parseDuration(formatDuration(ms))).toBe(ms);
  });

  test('a day is written in hours', () => expect(formatDuration(86_400_000)).toBe('24h'));
});

describe('instants', () => {
  test.each([
    ['now', NOW],
    ['now-1h', NOW - 3_600_000],
    ['-15m', NOW - 900_000],
    ['5m', NOW - 300_000],
    ['2026-01-31T12:00:00Z', NOW],
    ['2026-01-31T12:00Z', NOW],
    ['2026-01-31 12:00:00.250', NOW + 250],
    ['2026-01-31T13:00:00+01:00', NOW],
    ['2026-01-31T06:30:00-0530', NOW],
    ['2026-01-31', Date.UTC(2026, 0, 31)],
    ['2026-01', Date.UTC(2026, 0, 1)],
    ['2026-01-31T12:00:00.123456789Z', NOW + 123],
    [String(NOW / 1000), NOW],
    [String(NOW), NOW],
    [`${NOW}000`, NOW],
    [`${NOW}000000`, NOW],
    ['yesterday', null],
    ['2026-13-01', null],
    ['2026-01-32', null],
    ['2026-00-10', null],
    ['2026-02-30', null],
    ['2026-02-29', null],
    ['2028-02-29', Date.UTC(2028, 1, 29)],
    ['2026-11-31 12:00', null],
    ['12:00', null],
    ['', null],
  ])('%s', (text, ms) => expect(parseInstant(text, NOW, true)).toBe(ms));

  test('without a zone it is local time unless UTC is requested', () => {
    expect(parseInstant('2026-01-31 12:00', NOW, false)).toBe(new Date(2026, 0, 31, 12, 0).getTime());
  });

  test('the shown form can be typed again', () => {
    for (const utc of [true, false]) {
      expect(parseInstant(formatInstant(NOW + 7, utc, 'auto'), NOW, utc)).toBe(NOW + 7);
    }
  });
});

describe('ranges', () => {
  test('the end “now” of a relative start is a relative range', () => {
    expect(parseRange('now-2h', 'now', NOW, true)).toEqual({ kind: 'relative', ms: 7_200_000 });
    expect(parseRange('2h', '', NOW, true)).toEqual({ kind: 'relative', ms: 7_200_000 });
  });
  test('anything else is absolute', () => {
    expect(parseRange('now-2h', 'now-1h', NOW, true)).toEqual({ kind: 'absolute', startMs: NOW - 7_200_000, endMs: NOW - 3_600_000 });
    expect(parseRange('2026-01-31 11:00', 'now', NOW, true)).toEqual({ kind: 'absolute', startMs: NOW - 3_600_000, endMs: NOW });
  });
  test.each([
    ['x', 'now'],
    ['now-1h', 'x'],
    ['now', 'now-1h'],
    ['now', 'now'],
  ])('%s to %s is refused', (from, to) => expect(parseRange(from, to, NOW, true)).toHaveProperty('error'));

  test('all is what is stored, the newest line included', () => {
    expect(resolveRange({ kind: 'all' }, NOW, { startMs: 5, endMs: 5000 })).toEqual({ startMs: 5, endMs: 5001 });
    expect(resolveRange({ kind: 'all' }, NOW, { startMs: 5, endMs: 5 }).endMs).toBeGreaterThan(5);
  });

  test('all leaves no line out where it is not known what is stored', () => {
    const { startMs, endMs } = resolveRange({ kind: 'all' }, NOW, null);
    expect(startMs).toBe(0);
    expect(endMs).toBeGreaterThan(NOW + 365 * 86_400_000);
  });

  test('zooming out doubles, but not into the future', () => {
    expect(zoomOut({ startMs: NOW - 4000, endMs: NOW - 2000 }, NOW)).toEqual({ kind: 'absolute', startMs: NOW - 5000, endMs: NOW - 1000 });
    expect(zoomOut({ startMs: NOW - 1000, endMs: NOW }, NOW)).toEqual({ kind: 'absolute', startMs: NOW - 2000, endMs: NOW });
  });

  test('labels', () => {
    expect(rangeLabel({ kind: 'relative', ms: 900_000 }, true)).toBe('Last 15 minutes');
    expect(rangeLabel({ kind: 'relative', ms: 120_000 }, true)).toBe('Last 2m');
    expect(formatSpan({ startMs: NOW, endMs: NOW + 10_000 }, true)).toBe('2026-01-31 12:00:00 – 12:00:10');
  });
});

test('times of the server', () => {
  expect(timeToMs('2026-01-31T12:00:00.123456789Z')).toBe(NOW + 123);
  expect(timeToMs('2026-01-31T12:00:00Z')).toBe(NOW);
  expect(timeToNs('2026-01-31T12:00:00.123456789Z')).toBe(BigInt(NOW) * 1_000_000n + 123_456_789n);
  expect(timeToNs('2026-01-31T12:00:00Z')).toBe(BigInt(NOW) * 1_000_000n);
  expect(timeToNs('soon')).toBeNull();
});

test('a range is edited without a change, also where clocks are set back', () => {
  const zone = process.env['TZ'];
  process.env['TZ'] = 'Europe/Berlin';
  try {
    // 02:30 local time comes twice on 2026-10-25.
    const [summer, winter] = [Date.UTC(2026, 9, 25, 0, 30), Date.UTC(2026, 9, 25, 1, 30)];
    for (const ms of [summer, winter, summer + 5, Date.UTC(2026, 2, 29, 1, 0), NOW]) {
      expect(parseInstant(editableInstant(ms, false), NOW, false)).toBe(ms);
      expect(parseInstant(editableInstant(ms, true), NOW, true)).toBe(ms);
    }
    expect([editableInstant(summer, false), editableInstant(winter, false)].filter((text) => text.includes('+'))).toHaveLength(1);
    expect(editableInstant(NOW, false)).toBe('2026-01-31 13:00:00');
    expect(zonesLabel(false, { startMs: summer, endMs: winter })).toBe('UTC+02:00 to UTC+01:00');
    expect(zonesLabel(false, { startMs: winter, endMs: winter + 1 })).toBe('UTC+01:00');
    expect(zonesLabel(true, { startMs: summer, endMs: winter })).toBe('UTC');
  } finally {
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
  }
});
