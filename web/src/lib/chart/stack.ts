// Geometry of stacks and bars, separate from drawing, so that it can be tested.

import type { Series } from './series';

/**
 * For each series, where it ends on top of those before it. `percent` makes the sum of each bucket
 * 100.
 */
export function stacked(series: readonly Pick<Series, 'values'>[], percent: boolean): number[][] {
  const count = series[0]?.values.length ?? 0;
  const totals = totalsOf(series, count);
  const sums = new Array<number>(count).fill(0);
  return series.map(({ values }) =>
    values.map((value, bucket) => {
      const [height, total] = [Math.max(0, value ?? 0), totals[bucket] as number];
      return (sums[bucket] = (sums[bucket] as number) + (!percent ? height : total === 0 ? 0 : (100 * height) / total));
    }),
  );
}

/** The height of each stack. */
export function totalsOf(series: readonly Pick<Series, 'values'>[], count: number): number[] {
  const totals = new Array<number>(count).fill(0);
  for (const { values } of series) for (let bucket = 0; bucket < count; bucket++) totals[bucket] = (totals[bucket] as number) + Math.max(0, values[bucket] ?? 0);
  return totals;
}

/**
 * The series under a height of a bucket: of stacked ones the one that covers it, else the nearest.
 * Null if there is no value, or above the stack.
 */
export function seriesAt(ends: readonly (number | null)[], y: number, isStacked: boolean): number | null {
  let nearest: number | null = null;
  let distance = Infinity;
  for (let at = 0; at < ends.length; at++) {
    const end = ends[at];
    if (end === null || end === undefined) continue;
    if (isStacked) {
      if (y <= end && y >= 0) return at;
      continue;
    }
    const apart = Math.abs(end - y);
    if (apart < distance) {
      distance = apart;
      nearest = at;
    }
  }
  return nearest;
}

/** A part of a bar, in units of the axis. */
export interface Segment {
  bottom: number;
  top: number;
  /** The share of the bar's width that is drawn. */
  width: number;
}

/**
 * A value above zero is never drawn lower than this: five errors among a million lines must be
 * visible. A segment that is raised to this height becomes narrower instead, so that its area still
 * shows the amount, and a few lines in each of many buckets are dots with gaps between them, not a
 * band.
 */
export const SEGMENT_HEIGHT_MIN_PX = 2;

/**
 * The segments of stacked bars by series and bucket; null for a value of zero. `ends` comes from
 * `stacked`, `least` is the minimum height, and no bar becomes higher than `max`: the biggest
 * segment of its bucket is reduced instead.
 */
export function raised(ends: readonly (readonly number[])[], least: number, max: number): (Segment | null)[][] {
  const all = ends.map((list) => new Array<Segment | null>(list.length).fill(null));
  for (let bucket = 0; bucket < (ends[0]?.length ?? 0); bucket++) {
    const column: { at: number; height: number; width: number }[] = [];
    let below = 0;
    ends.forEach((list, at) => {
      const value = (list[bucket] as number) - below;
      below = list[bucket] as number;
      if (value > 0) column.push({ at, height: Math.max(least, value), width: Math.min(1, value / least) });
    });
    const excess = column.reduce((sum, one) => sum + one.height, 0) - max;
    if (excess > 0) {
      const biggest = column.reduce((a, b) => (b.height > a.height ? b : a));
      biggest.height = Math.max(least, biggest.height - excess);
    }
    let bottom = 0;
    for (const { at, height, width } of column) {
      (all[at] as (Segment | null)[])[bucket] = { bottom, top: bottom + height, width };
      bottom += height;
    }
  }
  return all;
}

/** The segment of a bar at a height, or the nearest one within `reach`; null above the bar. */
export function segmentAt(bar: readonly (Segment | null)[], y: number, reach: number): number | null {
  let nearest: number | null = null;
  let distance = reach;
  bar.forEach((segment, at) => {
    if (!segment) return;
    const apart = Math.max(y - segment.top, segment.bottom - y, 0);
    if (apart < distance) [nearest, distance] = [at, apart];
  });
  return nearest;
}

/** Thinner bars touch each other: a gap would be as wide as they are. */
const BAR_PX_MIN = 2;

/**
 * Left edge and width in whole pixels of the bar between two places, with a gap behind it if there
 * is room for one.
 */
export function barBetween(fromPx: number, toPx: number): { x: number; width: number } {
  const [x, end] = [Math.round(fromPx), Math.round(toPx)];
  return { x, width: Math.max(1, end - x - (toPx - fromPx >= BAR_PX_MIN ? 1 : 0)) };
}
