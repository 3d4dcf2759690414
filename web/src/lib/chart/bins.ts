// Distributions: ranges of the function `histogram` as few round bins, and grids of time × bins or groups.

import type { Row } from '../base/jsonl';
import { timeToMs, type Span } from '../base/time';
import { bucketTimes, groupLabel } from './frame';
import type { Shape, ValueColumn } from './shape';
import { formatUnitShort, toNumber, type Unit } from './units';

export interface Bin {
  from: number;
  to: number;
  hits: number;
}

/** Bins that a chart shows: more would be too thin. */
const BINS_MAX = 40;
/** Ranges that `histogram` gives for a decimal power. */
const RANGES_A_POWER = 18;
/** How many of those make a bin; divisors, so that each power of ten begins a bin. */
const MERGES = [1, 2, 3, 6, 9, 18] as const;

/** The ranges in a value of `histogram`; what is no range is left out. */
export function rangesOf(text: string): Bin[] {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    return [];
  }
  if (!Array.isArray(list)) return [];
  return list.flatMap((one: { vmrange?: unknown; hits?: unknown }) => {
    const ends = typeof one?.vmrange === 'string' ? one.vmrange.split('...') : [];
    const from = Number(ends[0]);
    const to = ends[1] === '+Inf' ? Infinity : Number(ends[1]);
    const hits = Number(one?.hits);
    return ends.length === 2 && !Number.isNaN(from) && !Number.isNaN(to) && hits >= 0 ? [{ from, to, hits }] : [];
  });
}

/** The number of a range on the scale of `histogram`: 18 for a decimal power. */
function place(from: number): number {
  return from <= 0 ? -Infinity : Math.round(Math.log10(from) * RANGES_A_POWER);
}

const edge = (at: number): number => Number((10 ** (at / RANGES_A_POWER)).toPrecision(3));

/** Bins that cover all ranges, from the least to the greatest, and the place of each range in them. */
function binsOver(ranges: readonly Bin[]): { bins: Bin[]; binOf: (range: Bin) => number } {
  const places = [...new Set(ranges.map((range) => place(range.from)))];
  const finite = places.filter(Number.isFinite).sort((a, b) => a - b);
  const hasZero = places.length > finite.length;
  const zero: Bin[] = hasZero ? [{ from: 0, to: Math.min(...ranges.filter((range) => place(range.from) === -Infinity).map((range) => range.to)), hits: 0 }] : [];
  const first = finite[0];
  const last = finite[finite.length - 1];
  if (first === undefined || last === undefined) return { bins: zero, binOf: () => 0 };
  const merge = MERGES.find((size) => (last - first + 1) / size <= BINS_MAX) ?? Math.ceil((last - first + 1) / BINS_MAX / RANGES_A_POWER) * RANGES_A_POWER;
  const begin = Math.floor(first / merge) * merge;
  const count = Math.floor((last - begin) / merge) + 1;
  const bins = Array.from({ length: count }, (_, at) => ({ from: edge(begin + at * merge), to: edge(begin + (at + 1) * merge), hits: 0 }));
  return {
    bins: [...zero, ...bins],
    binOf: (range) => (place(range.from) === -Infinity ? 0 : Math.floor((place(range.from) - begin) / merge) + zero.length),
  };
}

/** One distribution over all rows: of a column of `histogram`, or of groups of numbers in steps. */
export function distributionOf(rows: readonly Row[], shape: Shape, value: ValueColumn | undefined): Bin[] {
  if (shape.histogram) {
    const name = shape.histogram.name;
    const ranges = rows.flatMap((row) => rangesOf(row[name] ?? ''));
    const { bins, binOf } = binsOver(ranges);
    for (const range of ranges) (bins[binOf(range)] as Bin).hits += range.hits;
    return bins;
  }
  const group = shape.groups.find((one) => one.step !== null);
  if (!group?.step || !value) return [];
  const sums = new Map<number, number>();
  for (const row of rows) {
    const from = toNumber(row[group.name]);
    if (from !== null) sums.set(from, (sums.get(from) ?? 0) + (toNumber(row[value.name]) ?? 0));
  }
  return [...sums].sort((a, b) => a[0] - b[0]).map(([from, hits]) => ({ from, to: from + (group.step as number), hits }));
}

/** One row of a heat map, from the bottom. */
export interface HeatRow {
  label: string;
  /** The range of the row's numbers; null for a row of a group. */
  range: { from: number; to: number } | null;
  group: ReadonlyMap<string, string> | null;
  cells: number[];
}

export interface HeatGrid {
  times: number[];
  stepMs: number;
  rows: HeatRow[];
  max: number;
  /** Groups without a row, because they are small. */
  folded: number;
}

export function binLabel({ from, to }: { from: number; to: number }, unit: Unit): string {
  return to === Infinity ? `≥ ${formatUnitShort(from, unit)}` : `${formatUnitShort(from, unit)} – ${formatUnitShort(to, unit)}`;
}

export function heatOf(rows: readonly Row[], shape: Shape, value: ValueColumn | undefined, unit: Unit, top: number, span: Span | null): HeatGrid {
  const time = shape.time;
  if (time === null) return { times: [], stepMs: 1000, rows: [], max: 0, folded: 0 };
  const at = rows.map((row) => timeToMs(row[time] ?? ''));
  const { times, stepMs } = bucketTimes(at, shape.stepMs, span);
  const index = new Map(times.map((ms, bucket) => [ms, bucket]));
  const blank = (): number[] => new Array<number>(times.length).fill(0);
  let grid: HeatRow[];
  let folded = 0;
  if (shape.histogram) {
    const name = shape.histogram.name;
    const ranges = rows.map((row) => rangesOf(row[name] ?? ''));
    const { bins, binOf } = binsOver(ranges.flat());
    grid = bins.map((bin) => ({ label: binLabel(bin, unit), range: bin, group: null, cells: blank() }));
    ranges.forEach((list, i) => {
      const bucket = index.get(at[i] as number);
      if (bucket === undefined) return;
      for (const range of list) add(grid[binOf(range)], bucket, range.hits);
    });
  } else {
    const names = shape.groups.map((one) => one.name);
    const step = shape.groups.length === 1 ? (shape.groups[0]?.step ?? null) : null;
    const found = new Map<string, HeatRow>();
    rows.forEach((row, i) => {
      const bucket = index.get(at[i] as number);
      const number = value ? toNumber(row[value.name]) : null;
      if (bucket === undefined || number === null) return;
      const group = names.map((name) => row[name] ?? '');
      const key = JSON.stringify(group);
      let one = found.get(key);
      if (!one) {
        const from = step === null ? null : toNumber(group[0]);
        const range = from === null ? null : { from, to: from + (step as number) };
        one = { label: range ? binLabel(range, unit) : groupLabel(group), range, group: new Map(names.map((name, n) => [name, group[n] as string])), cells: blank() };
        found.set(key, one);
      }
      add(one, bucket, number);
    });
    const all = [...found.values()];
    if (step !== null) {
      grid = all.sort((a, b) => (a.range?.from ?? -Infinity) - (b.range?.from ?? -Infinity)).slice(0, ROWS_MAX);
    } else {
      const size = (row: HeatRow): number => row.cells.reduce((sum, cell) => sum + cell, 0);
      // The biggest group is on top.
      grid = all.sort((a, b) => size(b) - size(a)).slice(0, top).reverse();
    }
    folded = all.length - grid.length;
  }
  return { times, stepMs, rows: grid, max: grid.reduce((max, row) => row.cells.reduce((most, cell) => Math.max(most, cell), max), 0), folded };
}

/** Rows of numbers in steps; higher ones are left out and counted. */
const ROWS_MAX = 100;

function add(row: HeatRow | undefined, bucket: number, by: number): void {
  if (row) row.cells[bucket] = (row.cells[bucket] ?? 0) + by;
}
