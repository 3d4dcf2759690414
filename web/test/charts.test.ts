import { describe, expect, test } from 'vitest';
import { barAt, bucketTotals, segmentAt, SEGMENT_HEIGHT_MIN_PX, stack, type Series } from '../src/charts/stack';
import { levelSeriesOfHits } from '../src/lib/lines/buckets';
import { formatBytes, formatCount, formatMillis, formatPercent, formatShort, niceMax, niceMaxBytes, niceMaxFraction } from '../src/lib/base/format';
import { levelOf, statusColor } from '../src/lib/base/levels';
import { rank, spikesOf, worstSpikes } from '../src/lib/lines/spikes';
import { axisTicks, bucketIndex, bucketSpan, bucketsOf, cutSpan, niceStep, partOf, stepParam } from '../src/lib/base/steps';
import { statsOf } from '../src/lib/query/stats';

const M = 60_000;
const H = 60 * M;

describe('steps', () => {
  test.each([
    [1000, 10],
    [5 * M, 5000],
    [15 * M, 10_000],
    [H, 30_000],
    [24 * H, 15 * M],
    [7 * 24 * H, 2 * H],
    [30 * 24 * H, 6 * H],
  ])('%i ms in steps of %i', (width, step) => expect(niceStep({ startMs: 0, endMs: width })).toBe(step));

  test('there are 48 to 120 buckets in every range up to years', () => {
    for (let width = 200; width < 3e10; width *= 1.37) {
      const count = width / niceStep({ startMs: 0, endMs: width });
      expect(count).toBeLessThanOrEqual(120);
      expect(count).toBeGreaterThanOrEqual(36);
    }
  });

  test('a unit is kept', () => {
    expect(niceStep({ startMs: 0, endMs: 1000 }, 10_000)).toBe(10_000);
    expect(niceStep({ startMs: 0, endMs: 25 * M }, 10_000) % 10_000).toBe(0);
  });

  test('parameters', () => {
    expect(stepParam(10_000)).toBe('10s');
    expect(stepParam(500)).toBe('500ms');
  });

  test('buckets cover the span and are cut to it', () => {
    const span = { startMs: 1_005, endMs: 3_001 };
    const buckets = bucketsOf(span, 1000);
    expect(buckets).toEqual({ firstMs: 1000, stepMs: 1000, count: 3 });
    expect(bucketIndex(buckets, 3_000)).toBe(2);
    expect(bucketSpan(buckets, 0, 0)).toEqual({ startMs: 1000, endMs: 2000 });
    expect(bucketSpan(buckets, 2, 1)).toEqual({ startMs: 2000, endMs: 4000 });
    expect(cutSpan(bucketSpan(buckets, 0, 0), span)).toEqual({ startMs: 1005, endMs: 2000 });
    expect(cutSpan(bucketSpan(buckets, 2, 1), span)).toEqual({ startMs: 2000, endMs: 3001 });
  });

  test('absurd spans do not draw forever', () => {
    expect(bucketsOf({ startMs: 0, endMs: 1e15 }, 1000).count).toBe(2000);
  });

  test('ticks are round and few', () => {
    const { at: ticks, spacingMs } = axisTicks({ firstMs: 1000, stepMs: 10_000, count: 90 }, 6, 0);
    expect(spacingMs % M).toBe(0);
    expect(ticks.length).toBeGreaterThan(1);
    expect(ticks.length).toBeLessThanOrEqual(6);
    expect(ticks.every((tick) => tick % M === 0)).toBe(true);
  });
});

describe('stacking', () => {
  const series: Series[] = [
    { key: 'error', label: 'error', color: 'red', values: [1, 0, 5] },
    { key: 'info', label: 'info', color: 'blue', values: [999, 10, 0] },
  ];

  test('rare values are visible, and nothing leaves the plot', () => {
    const segments = stack(series, 3, 1000, 100);
    expect(segments).toHaveLength(4);
    const [rare, many] = segments;
    expect(rare?.height).toBe(SEGMENT_HEIGHT_MIN_PX);
    expect(rare?.y).toBe(100 - SEGMENT_HEIGHT_MIN_PX);
    expect(many?.y).toBeGreaterThanOrEqual(0);
  });

  test('a segment that is raised becomes narrower: its area is true', () => {
    // 257 of 57,000 lines over 120 buckets are dots with gaps between them, not a band.
    const rare = { key: 'error', label: '', color: '', values: Array.from({ length: 120 }, (_, i) => (i % 7 === 0 ? 3 : 2)) };
    const many = { key: 'info', label: '', color: '', values: rare.values.map(() => 475) };
    const dots = stack([rare, many], 120, 500, 102).filter((segment) => segment.series === 0);
    expect(dots).toHaveLength(120);
    for (const dot of dots) {
      expect(dot.width).toBeLessThan(0.5);
      expect(dot.width * dot.height).toBeCloseTo((dot.value / 500) * 102);
    }
    expect(stack([many], 120, 500, 102)[0]?.width).toBe(1);
  });

  test('bars have a gap of a pixel between them, down to the width of a phone', () => {
    for (const [plot, count] of [[1200, 120], [328, 120], [328, 60], [311, 73]] as const) {
      for (let bucket = 0; bucket < count - 1; bucket++) {
        const [bar, next] = [barAt(bucket, count, 44, plot), barAt(bucket + 1, count, 44, plot)];
        expect(bar.width).toBeGreaterThanOrEqual(1);
        expect(next.x - (bar.x + bar.width)).toBeGreaterThanOrEqual(1);
      }
    }
  });

  test('the segment under the pointer, or the nearest within reach', () => {
    const segments = stack(series, 3, 1000, 100);
    expect(segmentAt(segments, 0, 99)?.series).toBe(0);
    expect(segmentAt(segments, 0, 50)?.series).toBe(1);
    expect(segmentAt(segments, 1, 5)).toBeNull();
    expect(segmentAt(segments, 2, 97)?.series).toBe(0);
    expect(segmentAt(segments, 2, 90)).toBeNull();
  });

  test('a bar of a part of its bucket says which', () => {
    const buckets = { firstMs: 0, stepMs: 10, count: 4 };
    const range = { startMs: 3, endMs: 36 };
    expect([0, 1, 2, 3].map((bucket) => partOf(buckets, bucket, range, 36))).toEqual([
      { kind: 'cut', startMs: 3, endMs: 10 },
      null,
      null,
      { kind: 'filling', startMs: 30, endMs: 36 },
    ]);
    expect(partOf(buckets, 3, range, 1000)).toEqual({ kind: 'cut', startMs: 30, endMs: 36 });
    const all = { startMs: -Infinity, endMs: Infinity };
    expect([0, 1, 2, 3].map((bucket) => partOf(buckets, bucket, all, 20)?.kind ?? null)).toEqual([null, null, 'filling', 'filling']);
  });

  test('totals', () => expect(bucketTotals(series, 3)).toEqual([1000, 10, 5]));
});

describe('levels', () => {
  test.each([
    ['error', 'error'],
    ['ERR', 'error'],
    ['warn', 'warning'],
    ['Fatal', 'critical'],
    ['', 'none'],
    [undefined, 'none'],
    ['whatever', 'none'],
    ['constructor', 'none'],
  ])('%s is %s', (value, level) => expect(levelOf(value)).toBe(level));

  test('aliases are one series that remembers its values, worst first', () => {
    const at = '2026-01-31T12:00:00Z';
    const buckets = bucketsOf({ startMs: Date.parse(at), endMs: Date.parse(at) + 2000 }, 1000);
    const group = (level: string, value: number) => ({ fields: { _level: level }, timestamps: [at], values: [value], total: value });
    const levels = levelSeriesOfHits([group('info', 7), group('warn', 2), group('warning', 3), { ...group('', 1), fields: {} }], buckets);
    expect(levels.map((one) => [one.key, one.values, one.rawValues])).toEqual([
      ['warning', [5, 0], ['warn', 'warning']],
      ['info', [7, 0], ['info']],
      ['none', [1, 0], ['']],
    ]);
  });

  test('codes of a class differ in colour', () => {
    const codes = ['500', '502', '503'];
    expect(new Set(codes.map((code) => statusColor(code, codes))).size).toBe(3);
  });
});

describe('spikes', () => {
  const quiet = new Array<number>(60).fill(1);

  test('a burst is found with its whole run', () => {
    const values = quiet.map((value, i) => (i >= 40 && i <= 44 && i !== 42 ? 50 : value));
    expect(spikesOf('access', 'status', '500', values, values)).toEqual([
      { type: 'access', field: 'status', value: '500', from: 40, to: 44, count: 201, usual: 1, peak: 50 },
    ]);
  });

  test.each([[quiet], [quiet.map(() => 1000)], [quiet.map((_, i) => i % 5)], [[]]])('nothing stands out %#', (values) => {
    expect(spikesOf('t', 'level', 'error', values, values.map(() => 9))).toEqual([]);
  });

  test('the median is over the time with lines', () => {
    const since = quiet.map((_, i) => (i < 40 ? 0 : 8));
    expect(spikesOf('t', 'level', 'error', since, since)).toEqual([]);
  });

  test('status codes are preferred to the level derived from them', () => {
    const burst = quiet.map((value, i) => (i === 9 ? 80 : value));
    const found = worstSpikes({ type: 'access', lines: burst, series: { status: { '500': burst, '200': burst }, level: { error: burst } } });
    expect(found.map((spike) => spike.value)).toEqual(['500']);
  });

  test('simultaneous spikes are adjacent, the newest first, and only the worst are kept', () => {
    const spike = (from: number, to: number, count: number) => ({ type: 't', field: 'level', value: 'error', from, to, usual: 0, peak: 9, count });
    const found = rank([spike(1, 4, 30), spike(20, 22, 10), spike(3, 5, 50), spike(21, 24, 20)]);
    expect(found.map((one) => one.count)).toEqual([20, 10, 50, 30]);
    const many = rank(Array.from({ length: 9 }, (_, i) => spike(i * 10, i * 10, 100 - i)));
    expect(many.map((one) => one.count)).toEqual([95, 96, 97, 98, 99, 100]);
  });
});

test('numbers', () => {
  expect(formatCount(1234567)).toBe('1,234,567');
  expect(formatShort(1234)).toBe('1.23k');
  expect(formatBytes(1536)).toBe('1.5 KiB');
  expect(formatMillis(83)).toBe('83 ms');
  expect(formatMillis(90_000)).toBe('1m 30s');
  expect(formatPercent(1, 1000)).toBe('<1%');
  expect(formatPercent(1, 0)).toBe('0%');
  expect([0, 1, 7, 101, 950].map(niceMax)).toEqual([1, 1, 8, 150, 1000]);
  expect(niceMaxBytes(1100)).toBe(1536);
});

test.each([
  [0, 1],
  [0.034, 0.04],
  [0.9, 1],
  [1, 1],
  [7, 8],
])('the axis of %s ends at %s', (value, end) => expect(niceMaxFraction(value)).toBeCloseTo(end, 9));

test('comments are no part of a pipe', () => {
  const pipe = statsOf('error # | stats by (a) count()\n| stats by (host) count() n # | x');
  expect(pipe).toMatchObject({ before: 'error', behind: '', functionsText: 'count() n', count: 1 });
  expect(pipe?.keys.map((key) => key.name)).toEqual(['host']);
});
