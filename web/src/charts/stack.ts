// Geometry of stacked bars, separate from drawing, so that it can be tested.

export interface Series {
  key: string;
  label: string;
  color: string;
  /** One value per bucket. */
  values: readonly number[];
}

export interface Segment {
  bucket: number;
  series: number;
  value: number;
  /** Pixels from the top of the plot. */
  y: number;
  height: number;
  /** The share of the bar's width that is drawn. */
  width: number;
}

/**
 * A value above zero is never drawn lower than this: five errors among a million lines must be visible. A segment that
 * is raised to this height becomes narrower instead, so that its area still shows the amount, and a few lines in each
 * of many buckets are dots with gaps between them, not a band.
 */
export const SEGMENT_HEIGHT_MIN_PX = 2;

export function bucketTotals(series: readonly Series[], count: number): number[] {
  const totals = new Array<number>(count).fill(0);
  for (const one of series) {
    for (let i = 0; i < count; i++) totals[i] = (totals[i] as number) + (one.values[i] ?? 0);
  }
  return totals;
}

/**
 * Stacks series from the baseline upwards in their order, so the first ones can be compared along the baseline.
 * If minimum heights would exceed the plot, the biggest segment of the bucket is reduced.
 */
export function stack(series: readonly Series[], count: number, max: number, plotPx: number): Segment[] {
  const segments: Segment[] = [];
  for (let bucket = 0; bucket < count; bucket++) {
    const column: Segment[] = [];
    for (let index = 0; index < series.length; index++) {
      const value = series[index]?.values[bucket] ?? 0;
      if (value <= 0) continue;
      const truePx = (value / max) * plotPx;
      const height = Math.max(SEGMENT_HEIGHT_MIN_PX, truePx);
      column.push({ bucket, series: index, value, y: 0, height, width: truePx / height });
    }
    let excess = column.reduce((sum, segment) => sum + segment.height, 0) - plotPx;
    if (excess > 0) {
      const biggest = column.reduce((a, b) => (b.height > a.height ? b : a));
      biggest.height = Math.max(SEGMENT_HEIGHT_MIN_PX, biggest.height - excess);
    }
    let top = plotPx;
    for (const segment of column) {
      top -= segment.height;
      segment.y = top;
    }
    segments.push(...column);
  }
  return segments;
}

/** Tolerance of the pointer around a segment: the lowest segments are lower than a hand is steady. */
const REACH_PX = 3;

/** The segment at a height of a bucket, or the nearest one within the tolerance; null above the bar. */
export function segmentAt(segments: readonly Segment[], bucket: number, y: number): Segment | null {
  let nearest: Segment | null = null;
  let reach = REACH_PX;
  for (const segment of segments) {
    if (segment.bucket !== bucket) continue;
    const distance = Math.max(segment.y - y, y - segment.y - segment.height, 0);
    // Of two adjacent ones, the smaller one: the other can be hit elsewhere.
    if (distance < reach || (distance === reach && nearest !== null && segment.height < nearest.height)) {
      nearest = segment;
      reach = distance;
    }
  }
  return nearest;
}

/** Left edge and width in pixels of a bar of `count` in a plot: whole pixels, and a gap between any two if there is room for it. */
export function barAt(bucket: number, count: number, leftPx: number, plotPx: number): { x: number; width: number } {
  const step = plotPx / count;
  const x = Math.round(leftPx + bucket * step);
  const end = Math.round(leftPx + (bucket + 1) * step);
  return { x, width: Math.max(1, end - x - (step >= BAR_PX_MIN ? 1 : 0)) };
}

/** Thinner bars touch each other: a gap would be as wide as they are. */
const BAR_PX_MIN = 2;
