// Geometry of stacked bars, apart from drawing, so that it can be tested.

export interface Series {
  key: string;
  label: string;
  color: string;
  /** One value a bucket. */
  values: readonly number[];
}

export interface Segment {
  bucket: number;
  series: number;
  value: number;
  /** Pixels from the top of the plot. */
  y: number;
  height: number;
}

/** A value above zero is never drawn thinner than this: five errors among a million lines must be seen and clickable. */
export const SEGMENT_HEIGHT_MIN_PX = 3;

export function bucketTotals(series: readonly Series[], count: number): number[] {
  const totals = new Array<number>(count).fill(0);
  for (const one of series) {
    for (let i = 0; i < count; i++) totals[i] = (totals[i] as number) + (one.values[i] ?? 0);
  }
  return totals;
}

/**
 * Stacks series from the baseline upwards in their order, so the first ones can be compared along the baseline.
 * When minimum heights would stick out of the plot, the biggest segment of the bucket gives way.
 */
export function stack(series: readonly Series[], count: number, max: number, plotPx: number): Segment[] {
  const segments: Segment[] = [];
  for (let bucket = 0; bucket < count; bucket++) {
    const column: Segment[] = [];
    for (let index = 0; index < series.length; index++) {
      const value = series[index]?.values[bucket] ?? 0;
      if (value <= 0) continue;
      column.push({ bucket, series: index, value, y: 0, height: Math.max(SEGMENT_HEIGHT_MIN_PX, (value / max) * plotPx) });
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

/** The segment at a height of a bucket, or null above the bar. */
export function segmentAt(segments: readonly Segment[], bucket: number, y: number): Segment | null {
  return segments.find((segment) => segment.bucket === bucket && y >= segment.y && y <= segment.y + segment.height) ?? null;
}
