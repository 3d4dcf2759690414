import { describe, expect, test } from 'vitest';
import { axisTicks, bucketIndex, bucketSpan, bucketsOf, cutSpan, niceStep, partOf, stepParam } from '../../src/lib/base/steps';

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
    const { at: ticks, spacingMs } = axisTicks({ firstMs: 1000, stepMs: 10_000, count: 90 }, 6, () => 0);
    expect(spacingMs % M).toBe(0);
    expect(ticks.length).toBeGreaterThan(1);
    expect(ticks.length).toBeLessThanOrEqual(6);
    expect(ticks.every((tick) => tick % M === 0)).toBe(true);
  });

  test('ticks of days are midnights, also where clocks are set', () => {
    // In Berlin, clocks are set back on 2026-10-25 at 01:00 UTC, and forward on 2026-03-29 at 01:00 UTC.
    const [back, forward] = [Date.UTC(2026, 9, 25, 1), Date.UTC(2026, 2, 29, 1)];
    const backAt = (ms: number): number => (ms < back ? 2 * H : H);
    const autumn = axisTicks({ firstMs: Date.UTC(2026, 9, 23, 22), stepMs: H, count: 4 * 24 }, 6, backAt);
    expect(autumn.at).toEqual([Date.UTC(2026, 9, 23, 22), Date.UTC(2026, 9, 24, 22), Date.UTC(2026, 9, 25, 23), Date.UTC(2026, 9, 26, 23)]);
    const spring = axisTicks({ firstMs: Date.UTC(2026, 2, 27, 23), stepMs: H, count: 94 }, 6, (ms) => (ms < forward ? H : 2 * H));
    expect(spring.at).toEqual([Date.UTC(2026, 2, 27, 23), Date.UTC(2026, 2, 28, 23), Date.UTC(2026, 2, 29, 22), Date.UTC(2026, 2, 30, 22)]);
    const hours = axisTicks({ firstMs: back - 2 * H, stepMs: 10 * M, count: 24 }, 6, backAt);
    expect(hours.at).toEqual([back - 2 * H, back - H, back, back + H]);
  });

  test('a bar of a part of its bucket says which', () => {
    const buckets = { firstMs: 0, stepMs: 10, count: 4 };
    const range = { startMs: 3, endMs: 36 };
    expect([0, 1, 2, 3].map((bucket) => partOf(bucketSpan(buckets, bucket, bucket), range, 36))).toEqual([
      { kind: 'cut', startMs: 3, endMs: 10 },
      null,
      null,
      { kind: 'filling', startMs: 30, endMs: 36 },
    ]);
    expect(partOf(bucketSpan(buckets, 3, 3), range, 1000)).toEqual({ kind: 'cut', startMs: 30, endMs: 36 });
    const all = { startMs: -Infinity, endMs: Infinity };
    expect([0, 1, 2, 3].map((bucket) => partOf(bucketSpan(buckets, bucket, bucket), all, 20)?.kind ?? null)).toEqual([null, null, 'filling', 'filling']);
  });
});
