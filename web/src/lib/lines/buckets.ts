// Turns answers of the server into evenly spaced series that a chart can draw.

import type { Series } from '../chart/series';
import type { HitsGroup } from '../api/queries';
import type { Summary } from '../api/summary';
import { LEVELS, levelColor, levelOf, statusColor, type Level } from '../base/levels';
import { LEVEL_FIELD } from './rows';
import { bucketIndex, type Buckets } from '../base/steps';
import { timeToMs } from '../base/time';

export interface LevelSeries extends Series {
  /** The values of the field that were counted under this level; `warn` and `warning` are one. */
  rawValues: string[];
}

/** Hits by `level`, worst level first. */
export function levelSeriesOfHits(hits: readonly HitsGroup[], buckets: Buckets): LevelSeries[] {
  const groups = hits.map((group) => {
    const values = new Array<number>(buckets.count).fill(0);
    group.timestamps.forEach((timestamp, i) => {
      const at = bucketIndex(buckets, timeToMs(timestamp));
      if (at >= 0 && at < buckets.count) values[at] = (values[at] as number) + (group.values[i] ?? 0);
    });
    return { raw: group.fields[LEVEL_FIELD] ?? '', values };
  });
  return byLevel(groups, buckets.count);
}

/** The series `level` of a summary, worst level first. */
export function levelSeriesOfSummary(summary: Summary): LevelSeries[] {
  const groups = Object.entries(summary.series['level'] ?? {}).map(([raw, values]) => ({ raw, values }));
  return byLevel(groups, summary.timestamps.length);
}

function byLevel(groups: readonly { raw: string; values: readonly number[] }[], count: number): LevelSeries[] {
  const levels = new Map<Level, { raw: string[]; values: number[] }>();
  for (const group of groups) {
    const level = levelOf(group.raw);
    const one = levels.get(level) ?? { raw: [], values: new Array<number>(count).fill(0) };
    if (!one.raw.includes(group.raw)) one.raw.push(group.raw);
    for (let i = 0; i < count; i++) one.values[i] = (one.values[i] as number) + (group.values[i] ?? 0);
    levels.set(level, one);
  }
  return LEVELS.filter((level) => levels.has(level)).map((level) => {
    const one = levels.get(level) as { raw: string[]; values: number[] };
    return { key: level, label: level, color: levelColor(level), values: one.values, rawValues: one.raw };
  });
}

/** The series `status` of a summary, server errors first, so that they are at the baseline. */
export function statusSeries(summary: Summary): Series[] {
  const codes = Object.keys(summary.series['status'] ?? {}).sort().reverse();
  return codes.map((code) => ({
    key: code,
    label: code === '' ? 'none' : code,
    color: statusColor(code, codes),
    values: summary.series['status']?.[code] ?? [],
  }));
}

/** The buckets of a summary. */
export function bucketsOfSummary(summary: Summary): Buckets {
  return {
    firstMs: timeToMs(summary.timestamps[0] ?? '1970-01-01T00:00:00Z'),
    stepMs: summary.step_s * 1000,
    count: summary.timestamps.length,
  };
}

/** The biggest values of a field over the range. */
export function topOf(totals: Record<string, number> | undefined, count: number): { value: string; hits: number }[] {
  return Object.entries(totals ?? {})
    .map(([value, hits]) => ({ value, hits }))
    .sort((a, b) => b.hits - a.hits)
    .slice(0, count);
}
