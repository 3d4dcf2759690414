// Rows over time as series: aligned to buckets, the biggest ones by themselves, the others added up or left out.

import type { Row } from '../base/jsonl';
import { timeToMs, type Span } from '../base/time';
import type { Shape, ValueColumn } from './shape';
import { toNumber } from './units';

export interface ChartSeries {
  /** Names the series in legends and links; different for each. */
  label: string;
  value: ValueColumn;
  /** The values of the group, by field; null for the sum of the others. */
  group: ReadonlyMap<string, string> | null;
  /** One for each bucket; null where there is none. */
  points: (number | null)[];
  /** The sum of what can be added up, the greatest value of anything else. */
  size: number;
}

export interface Frame {
  /** Where buckets begin, in milliseconds, ascending. */
  times: number[];
  stepMs: number;
  /** The biggest first, the sum of the others last. */
  series: ChartSeries[];
  /** How many series are not drawn by themselves. */
  folded: number;
  /** Whether those are drawn as one, their sum. */
  isRestDrawn: boolean;
  /** There are more buckets than are drawn. */
  isCut: boolean;
}

/** Buckets that are drawn; later ones are left out. */
export const BUCKETS_MAX = 5000;
export const NO_VALUE = '(none)';
export const OTHERS = 'others';

export function groupLabel(values: readonly string[]): string {
  return values.map((value) => (value === '' ? NO_VALUE : value)).join(', ');
}

/** Where buckets begin: those with rows, and those between them and up to the ends of the span if all have one width. */
export function bucketTimes(found: Iterable<number>, stepMs: number | null, span: Span | null): { times: number[]; stepMs: number } {
  const times = [...new Set(found)].filter((ms) => !Number.isNaN(ms)).sort((a, b) => a - b);
  const first = times[0];
  const last = times[times.length - 1];
  if (first === undefined || last === undefined) return { times: [], stepMs: stepMs ?? 1000 };
  const gaps = times.slice(1).map((ms, at) => ms - (times[at] as number));
  const step = stepMs ?? (gaps.length > 0 ? Math.min(...gaps) : span ? Math.max(1, span.endMs - span.startMs) : 1000);
  const isRegular = times.every((ms) => (ms - first) % step === 0);
  if (!isRegular) return { times: times.slice(0, BUCKETS_MAX), stepMs: step };
  const before = span && span.startMs < first ? Math.ceil((first - span.startMs) / step) : 0;
  const startMs = first - before * step;
  const endMs = span ? Math.max(last + 1, span.endMs) : last + 1;
  if ((endMs - startMs) / step > BUCKETS_MAX) return { times: times.slice(0, BUCKETS_MAX), stepMs: step };
  const all: number[] = [];
  for (let ms = startMs; ms < endMs; ms += step) all.push(ms);
  return { times: all, stepMs: step };
}

/** Labels that differ: a second series with the label of an earlier one gets a number. */
export function distinct(labels: readonly string[]): string[] {
  const seen = new Map<string, number>();
  return labels.map((label) => {
    const count = (seen.get(label) ?? 0) + 1;
    seen.set(label, count);
    return count === 1 ? label : `${label} (${count})`;
  });
}

export function frameOf(rows: readonly Row[], shape: Shape, values: readonly ValueColumn[], top: number, span: Span | null): Frame {
  const time = shape.time;
  if (time === null) return { times: [], stepMs: 1000, series: [], folded: 0, isRestDrawn: false, isCut: false };
  const at = rows.map((row) => timeToMs(row[time] ?? ''));
  const { times, stepMs } = bucketTimes(at, shape.stepMs, span);
  const index = new Map(times.map((ms, bucket) => [ms, bucket]));
  const names = shape.groups.map((group) => group.name);
  const all = new Map<string, ChartSeries>();
  rows.forEach((row, i) => {
    const bucket = index.get(at[i] as number);
    if (bucket === undefined) return;
    const group = names.map((name) => row[name] ?? '');
    for (const value of values) {
      const number = toNumber(row[value.name]);
      if (number === null) continue;
      const key = JSON.stringify([value.name, ...group]);
      let one = all.get(key);
      if (!one) {
        const label = names.length === 0 ? value.name : values.length === 1 ? groupLabel(group) : `${value.name} · ${groupLabel(group)}`;
        const points = new Array<number | null>(times.length).fill(value.additive ? 0 : null);
        one = { label, value, group: new Map(names.map((name, n) => [name, group[n] as string])), points, size: value.additive ? 0 : -Infinity };
        all.set(key, one);
      }
      one.points[bucket] = value.additive ? ((one.points[bucket] ?? 0) + number) : number;
      one.size = value.additive ? one.size + number : Math.max(one.size, number);
    }
  });
  const isCut = at.some((ms) => ms > (times[times.length - 1] ?? Infinity));
  return { times, stepMs, isCut, ...folded([...all.values()], names.length > 0 ? top : Infinity) };
}

/** Keeps the biggest series of each column of numbers, and adds up the others of a column whose numbers may be added up. */
function folded(all: ChartSeries[], top: number): Pick<Frame, 'series' | 'folded' | 'isRestDrawn'> {
  const columns = [...new Set(all.map((one) => one.value))];
  const kept: ChartSeries[] = [];
  const rests: ChartSeries[] = [];
  let count = 0;
  // Several columns share the number of series, so that a chart never has many more than `top`.
  const each = columns.length > 1 ? Math.max(1, Math.floor(top / columns.length)) : top;
  for (const value of columns) {
    const own = all.filter((one) => one.value === value);
    // Without groups, columns keep the order in which they are written.
    if (top !== Infinity) own.sort((a, b) => b.size - a.size || (a.label < b.label ? -1 : 1));
    kept.push(...own.slice(0, each));
    const rest = own.slice(each);
    count += rest.length;
    if (rest.length === 0 || !value.additive) continue;
    const points = (rest[0] as ChartSeries).points.map((_, bucket) => rest.reduce((sum, one) => sum + (one.points[bucket] ?? 0), 0));
    const label = columns.length > 1 ? `${value.name} · ${OTHERS}` : OTHERS;
    rests.push({ label, value, group: null, points, size: rest.reduce((sum, one) => sum + one.size, 0) });
  }
  const series = [...kept, ...rests];
  const labels = distinct(series.map((one) => one.label));
  return { series: series.map((one, at) => ({ ...one, label: labels[at] as string })), folded: count, isRestDrawn: rests.length > 0 };
}

/** One entry of a list of groups: a pie, a top list. */
export interface Slice {
  label: string;
  group: ReadonlyMap<string, string> | null;
  size: number;
}

/** The biggest groups of a column, and the others. Buckets of time are added up, or the greatest of them is taken. */
export function slicesOf(rows: readonly Row[], shape: Shape, value: ValueColumn, top: number): { slices: Slice[]; folded: number; rest: number | null } {
  const names = shape.groups.map((group) => group.name);
  const all = new Map<string, Slice>();
  for (const row of rows) {
    const number = toNumber(row[value.name]);
    if (number === null) continue;
    const group = names.map((name) => row[name] ?? '');
    const key = JSON.stringify(group);
    const one = all.get(key);
    if (!one) all.set(key, { label: names.length === 0 ? value.name : groupLabel(group), group: new Map(names.map((name, n) => [name, group[n] as string])), size: number });
    else one.size = value.additive ? one.size + number : Math.max(one.size, number);
  }
  const sorted = [...all.values()].sort((a, b) => b.size - a.size);
  const rest = sorted.slice(top);
  const kept = sorted.slice(0, top);
  const labels = distinct(kept.map((one) => one.label));
  return {
    slices: kept.map((one, at) => ({ ...one, label: labels[at] as string })),
    folded: rest.length,
    rest: rest.length > 0 && value.additive ? rest.reduce((sum, one) => sum + one.size, 0) : null,
  };
}
