// The shape of a result: which column is the time, which ones group, which are numbers; and what chart fits it.

import type { Row } from '../base/jsonl';
import { keyColumns } from '../query/logsql';
import { columnsOf } from '../base/table';
import { KINDS, type ChartOptions, type Kind, type Stack } from './options';
import { statsOf, timeStepMs, type StatsFunction, type StatsPipe } from '../query/stats';
import { guessUnit, isDuration, toNumber, type Unit } from './units';

/** A column with numbers. */
export interface ValueColumn {
  name: string;
  fn: StatsFunction | null;
  /** Values of several groups or buckets may be added up, and a missing one is zero. */
  additive: boolean;
  unit: Unit;
}

export interface GroupColumn {
  name: string;
  /** The width of its steps, for a group of numbers in steps. */
  step: number | null;
}

export interface Shape {
  time: string | null;
  /** The width of the buckets of time; null if there are none, or of several widths. */
  stepMs: number | null;
  groups: GroupColumn[];
  values: ValueColumn[];
  /** A column of the function `histogram`. */
  histogram: { name: string; fn: StatsFunction | null; unit: Unit } | null;
  pipe: StatsPipe | null;
}

const ADDITIVE = /^(count|count_empty|sum|sum_len|rate|rate_sum)$/;
const HISTOGRAM = /^\[(\{"vmrange":|\]$)/;
/** Values that are looked at to learn what a column is. */
const SAMPLE_ROWS = 2000;

/** Whether a query makes a table of groups, which can be drawn. */
export function isStats(query: string): boolean {
  return statsOf(query) !== null;
}

export function shapeOf(rows: readonly Row[], query: string): Shape {
  const pipe = statsOf(query);
  const sample = rows.slice(0, SAMPLE_ROWS);
  const keys = pipe ? new Set(pipe.keys.map((key) => key.name)) : keyColumns(query);
  const columns = columnsOf(sample, keys);
  const functionOf = (name: string): StatsFunction | null => pipe?.functions.find((one) => one.name.replaceAll(' ', '') === name.replaceAll(' ', '')) ?? null;
  const filled = (name: string): string[] => sample.map((row) => row[name] ?? '').filter((value) => value !== '');

  const time = columns.find(({ name, kind, isKey }) => kind === 'time' && (isKey || name === '_time'))?.name ?? null;
  let histogram: Shape['histogram'] = null;
  const groups: GroupColumn[] = [];
  const values: ValueColumn[] = [];
  for (const { name, kind, isKey } of columns) {
    if (name === time) continue;
    const fn = functionOf(name);
    const texts = filled(name);
    if (histogram === null && fn?.fn !== 'json_values' && texts.length > 0 && texts.every((text) => HISTOGRAM.test(text))) {
      histogram = { name, fn, unit: guessUnit(name, null, fn?.field ?? null) };
    } else if (isKey) {
      const step = pipe?.keys.find((key) => key.name === name)?.step ?? null;
      groups.push({ name, step: step === null ? null : toNumber(step) });
    } else if (kind === 'number' || (texts.length > 0 && texts.every((text) => toNumber(text) !== null))) {
      const written = kind !== 'number' && texts.some(isDuration);
      const guessed = guessUnit(name, fn?.fn ?? null, fn?.field ?? null);
      values.push({ name, fn, additive: fn ? ADDITIVE.test(fn.fn) : pipe?.pipe === 'top' || pipe?.pipe === 'uniq', unit: written ? 'ns' : guessed });
    } else if (kind === 'text' && fn === null && keys.size === 0) {
      groups.push({ name, step: null });
    }
  }
  return { time, stepMs: time === null ? null : timeStepMs(pipe), groups, values, histogram, pipe };
}

/** The chart for a result if nobody chose one. */
export function defaultKind(shape: Shape, rowCount: number): Kind {
  if (shape.histogram) return shape.time === null ? 'histogram' : 'heat';
  if (shape.values.length === 0) return 'table';
  if (shape.time !== null) {
    const isGrid = shape.groups.length === 1 && shape.groups[0]?.step !== null;
    return isGrid ? 'heat' : 'line';
  }
  if (shape.groups.length === 0) return rowCount === 1 ? 'single' : 'table';
  if (shape.groups.length > 1) return 'table';
  return shape.groups[0]?.step === null ? 'top' : 'histogram';
}

/** Kinds with an axis of time. */
export function isOverTime(kind: Kind): boolean {
  return kind === 'line' || kind === 'area' || kind === 'bars' || kind === 'heat';
}

/** The kinds that a result can be shown as, also by counting it again over time. */
export function kindsFor(shape: Shape): Kind[] {
  const canRepeat = shape.time !== null || shape.pipe?.pipe === 'stats';
  const hasNumbers = shape.values.length > 0;
  return KINDS.filter((kind) => {
    switch (kind) {
      case 'line':
      case 'area':
      case 'bars':
        return hasNumbers && canRepeat;
      case 'heat':
        return (shape.histogram !== null || (hasNumbers && shape.groups.length > 0)) && canRepeat;
      case 'histogram':
        return shape.histogram !== null || (hasNumbers && shape.groups.some((group) => group.step !== null));
      case 'pie':
        return shape.values.some((value) => value.additive) || (hasNumbers && shape.pipe === null);
      case 'single':
      case 'top':
        return hasNumbers;
      case 'table':
        return true;
    }
  });
}

/** The kind that is drawn: the chosen one if the result can be shown so. */
export function kindOf(options: ChartOptions, shape: Shape, rowCount: number): Kind {
  const { kind } = options;
  return kind !== null && kindsFor(shape).includes(kind) ? kind : defaultKind(shape, rowCount);
}

/** The columns that are drawn: the chosen ones, else those with the unit of the first; single values have no axis to share. */
export function shownValues(shape: Shape, chosen: readonly string[] | null, kind: Kind): ValueColumn[] {
  const wanted = shape.values.filter((value) => chosen?.includes(value.name));
  if (wanted.length > 0) return wanted;
  if (kind === 'single') return shape.values;
  const first = shape.values[0];
  return first ? shape.values.filter((value) => value.unit === first.unit && value.additive === first.additive) : [];
}

/** Only values that can be added up are stacked. */
export function stackOf(kind: Kind, chosen: Stack | null, values: readonly ValueColumn[], seriesCount: number): Stack {
  const first = values[0];
  if (kind !== 'area' && kind !== 'bars') return 'none';
  if (values.some((value) => value.unit !== first?.unit)) return 'none';
  if (chosen !== null) return chosen;
  return seriesCount > 1 && values.length === 1 && first?.additive ? 'stacked' : 'none';
}
