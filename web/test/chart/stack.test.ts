import { describe, expect, test } from 'vitest';
import { barBetween, raised, segmentAt, SEGMENT_HEIGHT_MIN_PX, seriesAt, stacked, totalsOf, type Segment } from '../../src/lib/chart/stack';

const SERIES = [{ values: [1, 0, 5] }, { values: [999, 10, null] }];

describe('stacks', () => {
  const series = [{ values: [1, null, 0] }, { values: [3, 2, 0] }];

  test('series stand on each other, as they are or as shares', () => {
    expect(stacked(series, false)).toEqual([[1, 0, 0], [4, 2, 0]]);
    expect(stacked(series, true)).toEqual([[25, 0, 0], [100, 100, 0]]);
  });

  test('totals', () => expect(totalsOf(SERIES, 3)).toEqual([1000, 10, 5]));

  test('the series at a height', () => {
    expect(seriesAt([1, 4], 0.5, true)).toBe(0);
    expect(seriesAt([1, 4], 2, true)).toBe(1);
    expect(seriesAt([1, 4], 5, true)).toBeNull();
    expect(seriesAt([1, 4], 5, false)).toBe(1);
    expect(seriesAt([null, null], 5, false)).toBeNull();
  });
});

describe('bars', () => {
  const PLOT_PX = 100;
  /** The segments of series in a plot of 100 pixels whose axis ends at `max`. */
  const drawn = (series: readonly { values: readonly (number | null)[] }[], max: number): (Segment | null)[][] =>
    raised(stacked(series, false), (SEGMENT_HEIGHT_MIN_PX * max) / PLOT_PX, max);
  const column = (all: (Segment | null)[][], bucket: number): (Segment | null)[] => all.map((list) => list[bucket] ?? null);

  test('rare values are visible, and nothing leaves the plot', () => {
    const [rare, many] = column(drawn(SERIES, 1000), 0);
    // Two of a hundred pixels.
    expect(rare).toMatchObject({ bottom: 0, top: 20 });
    expect(many).toMatchObject({ bottom: 20, top: 1000, width: 1 });
    expect(column(drawn(SERIES, 1000), 2)[1]).toBeNull();
  });

  test('many rare values above each other do not leave the plot either', () => {
    const all = drawn([...Array.from({ length: 20 }, () => ({ values: [1] })), { values: [980] }], 1000);
    expect(Math.max(...column(all, 0).map((segment) => segment?.top ?? 0))).toBeCloseTo(1000);
  });

  test('a segment that is raised becomes narrower: its area is true', () => {
    // 257 of 57,000 lines over 120 buckets are dots with gaps between them, not a band.
    const rare = { values: Array.from({ length: 120 }, (_, i) => (i % 7 === 0 ? 3 : 2)) };
    const many = { values: rare.values.map(() => 475) };
    const [dots] = drawn([rare, many], 500) as [Segment[], Segment[]];
    expect(dots).toHaveLength(120);
    dots.forEach((dot, bucket) => {
      expect(dot.width).toBeLessThan(0.5);
      expect(dot.width * (dot.top - dot.bottom)).toBeCloseTo(rare.values[bucket] as number);
    });
    expect(drawn([many], 500)[0]?.[0]?.width).toBe(1);
  });

  test('bars have a gap of a pixel between them, down to the width of a phone', () => {
    for (const [plot, count] of [[1200, 120], [328, 120], [328, 60], [311, 73]] as const) {
      const bar = (bucket: number): { x: number; width: number } => barBetween(44 + (bucket * plot) / count, 44 + ((bucket + 1) * plot) / count);
      for (let bucket = 0; bucket < count - 1; bucket++) {
        expect(bar(bucket).width).toBeGreaterThanOrEqual(1);
        expect(bar(bucket + 1).x - (bar(bucket).x + bar(bucket).width)).toBeGreaterThanOrEqual(1);
      }
    }
  });

  test('the segment under the pointer, or the nearest within reach', () => {
    const all = drawn(SERIES, 1000);
    const reach = 30;
    expect(segmentAt(column(all, 0), 10, reach)).toBe(0);
    expect(segmentAt(column(all, 0), 500, reach)).toBe(1);
    expect(segmentAt(column(all, 1), 950, reach)).toBeNull();
    expect(segmentAt(column(all, 2), 30, reach)).toBe(0);
    expect(segmentAt(column(all, 2), 100, reach)).toBeNull();
  });
});
