// Rows of a program as a chart and a table: which fields are numbers, and the series of a field split by another.

import type { Series } from '../chart/series';
import type { Fields, FieldValue, ProgramRow } from '../api/programs';
import { LEVELS, levelColor, levelOf, statusColor, type Level } from '../base/levels';
import { barsMax, bucketIndex, bucketsOf, niceStep, type Buckets } from '../base/steps';
import { timeToMs, type Span } from '../base/time';

/** Groups of a chart; the others are one series. */
export const GROUPS_MAX = 8;
/** Rows of the table of the latest buckets. */
export const LATEST_ROWS_MAX = 200;

/** `--group-1` to `--group-8` have a tone of their own in both themes. */
const groupColor = (at: number): string => `var(--group-${at + 1})`;
/** The key of the other groups. No group has it, because keys of groups begin with `=`. */
export const OTHER = 'other';

const NUMBER = /^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i;

/** The number that a value is; null if it is none. */
export function numberOf(value: FieldValue | undefined): number | null {
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (typeof value === 'string' && NUMBER.test(value)) return Number(value);
  return null;
}

/** A value as text, as the table shows it. */
export function textOf(value: FieldValue | undefined): string {
  return value === undefined || value === null ? '' : String(value);
}

export interface FieldNames {
  /** All, in the order in which the rows name them. */
  all: string[];
  numbers: string[];
  texts: string[];
}

/**
 * The fields of rows. A field is a number if every value is a JSON number; a text that looks like one, such as a status
 * code, is a name. Without any JSON number, texts that look like numbers count. `keys` are names in any case.
 */
export function fieldNames(rows: readonly Fields[], keys: ReadonlySet<string> = new Set()): FieldNames {
  const values = new Map<string, FieldValue[]>();
  for (const row of rows) {
    for (const [name, value] of Object.entries(row)) {
      const list = values.get(name) ?? [];
      if (value !== null && value !== '') list.push(value);
      values.set(name, list);
    }
  }
  const all = [...values.keys()];
  const having = (test: (value: FieldValue) => boolean): string[] =>
    all.filter((name) => !keys.has(name) && (values.get(name) as FieldValue[]).length > 0 && (values.get(name) as FieldValue[]).every(test));
  const strict = having((value) => typeof value === 'number');
  const numbers = strict.length > 0 ? strict : having((value) => numberOf(value) !== null);
  return { all, numbers, texts: all.filter((name) => !numbers.includes(name)) };
}

/** A number with such a name identifies a row; it does not count anything. */
const NAMING = /(^|_)(status|code|class|port|pid|id|uid|rank|severity|version)$/i;

/**
 * The fields that name rows although they are numbers. Without any text, several rows of a bucket differ in a number,
 * such as a status code: one that is different in each row of a bucket, and whose values come again in other buckets.
 * `keys` are those that are known.
 */
export function keyFields(rows: readonly ProgramRow[], keys: ReadonlySet<string> = new Set()): ReadonlySet<string> {
  const names = fieldNames(rows.map((row) => row.fields), keys);
  const severalInOne = new Set(rows.map((row) => row.time)).size < rows.length;
  if (names.texts.length > 0 || names.numbers.length < 2 || !severalInOne) return keys;
  const candidates = names.numbers.filter((name) => new Set(rows.map((row) => `${row.time} ${textOf(row.fields[name])}`)).size === rows.length);
  // The field with the fewest different values, so that a status is preferred to a sum; of equal ones the name decides, then the order.
  const rank = (name: string): number => new Set(rows.map((row) => textOf(row.fields[name]))).size - (NAMING.test(name) ? 0.5 : 0);
  const best = candidates.sort((left, right) => rank(left) - rank(right))[0];
  return best === undefined ? keys : new Set([...keys, best]);
}

/** What a chart shows: the wanted fields if the rows have them, else the first that fit. `''` as the split means none. */
export function chosenFields(names: FieldNames, value: string | null, split: string | null): { value: string | null; split: string | null } {
  const chosen = value !== null && names.all.includes(value) ? value : (names.numbers[0] ?? null);
  if (split === '') return { value: chosen, split: null };
  const by = split !== null && names.all.includes(split) ? split : (names.texts[0] ?? null);
  return { value: chosen, split: by === chosen ? null : by };
}

/** The width of bars: a multiple of the bucket, so that every row is in exactly one bar. */
export function rowStep(span: Span, bucketMs: number, max = barsMax()): number {
  const width = span.endMs - span.startMs;
  const nice = niceStep(span, bucketMs, max);
  if (nice % bucketMs === 0 && width / nice >= max / 4) return nice;
  const least = Math.max(1, Math.ceil(width / bucketMs / max)) * bucketMs;
  // A short span has few buckets, whatever the width of its bars.
  return nice % bucketMs === 0 && nice <= least ? nice : least;
}

export function rowBuckets(span: Span, bucketMs: number, max = barsMax()): Buckets {
  return bucketsOf(span, rowStep(span, bucketMs, max));
}

interface Drawn {
  color: string;
  /** Low is at the baseline. */
  place: number;
}

/** Codes and classes of HTTP status (`404`, `4xx`), and levels, have their colours, and what is bad is at the baseline. */
function knownGroups(names: readonly string[]): Map<string, Drawn> | null {
  if (names.length === 0) return null;
  if (names.every((name) => /^[1-5](\d\d|xx)$/.test(name))) {
    const codes = names.map((name) => name.replace('xx', '00'));
    return new Map(names.map((name, i) => [name, { color: statusColor(codes[i] as string, codes), place: -Number(codes[i]) }]));
  }
  const levels = names.map((name) => levelOf(name));
  if (levels.includes('none') || new Set(levels).size < names.length) return null;
  return new Map(names.map((name, i) => [name, { color: levelColor(levels[i] as Level), place: LEVELS.indexOf(levels[i] as Level) }]));
}

/** Sums of a field by bar, one series for each of the biggest groups, and one for the others. */
export function rowSeries(rows: readonly ProgramRow[], buckets: Buckets, value: string, split: string | null): Series[] {
  const groups = new Map<string, { values: number[]; total: number }>();
  for (const row of rows) {
    const amount = numberOf(row.fields[value]);
    const at = bucketIndex(buckets, timeToMs(row.time));
    if (amount === null || !(at >= 0 && at < buckets.count)) continue;
    const name = split === null ? value : textOf(row.fields[split]);
    const group = groups.get(name) ?? { values: new Array<number>(buckets.count).fill(0), total: 0 };
    group.values[at] = (group.values[at] as number) + amount;
    group.total += amount;
    groups.set(name, group);
  }
  const ordered = [...groups].sort(([a, left], [b, right]) => right.total - left.total || (a < b ? -1 : 1));
  const biggest = ordered.slice(0, GROUPS_MAX);
  const known = split === null ? null : knownGroups(biggest.map(([name]) => name));
  if (known) biggest.sort(([a], [b]) => (known.get(a) as Drawn).place - (known.get(b) as Drawn).place);
  const series: Series[] = biggest.map(([name, group], i) => ({ key: `=${name}`, label: name === '' ? '(none)' : name, color: known?.get(name)?.color ?? groupColor(i), values: group.values }));
  const rest = ordered.slice(GROUPS_MAX);
  if (rest.length > 0) {
    const values = new Array<number>(buckets.count).fill(0);
    for (const [, group] of rest) group.values.forEach((amount, i) => (values[i] = (values[i] as number) + amount));
    series.push({ key: OTHER, label: `${OTHER} (${rest.length})`, color: 'var(--group-other)', values });
  }
  return series;
}

/** The rows of the latest buckets, the latest bucket first and its rows in their order; a bucket is not cut. */
export function latestRows(rows: readonly ProgramRow[], max = LATEST_ROWS_MAX): ProgramRow[] {
  const buckets = new Map<string, ProgramRow[]>();
  for (const row of rows) {
    const list = buckets.get(row.time) ?? [];
    list.push(row);
    buckets.set(row.time, list);
  }
  const latest: ProgramRow[] = [];
  for (const [, list] of [...buckets].sort(([a], [b]) => timeToMs(b) - timeToMs(a))) {
    if (latest.length > 0 && latest.length + list.length > max) break;
    latest.push(...[...list].sort((a, b) => a.row - b.row));
  }
  return latest;
}
