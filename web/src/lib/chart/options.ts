// How a result is shown: what a link and a panel keep of a chart.

import { parseDuration } from '../base/time';
import { UNITS, type Unit } from './units';

export const KINDS = ['line', 'area', 'bars', 'heat', 'histogram', 'pie', 'single', 'top', 'table'] as const;
export type Kind = (typeof KINDS)[number];

export const KIND_LABELS: Record<Kind, string> = {
  line: 'Line',
  area: 'Area',
  bars: 'Bars',
  heat: 'Heat map',
  histogram: 'Histogram',
  pie: 'Pie',
  single: 'Single value',
  top: 'Top list',
  table: 'Table',
};

export const STACKS = ['none', 'stacked', 'percent'] as const;
export type Stack = (typeof STACKS)[number];

export const STACK_LABELS: Record<Stack, string> = { none: 'Not stacked', stacked: 'Stacked', percent: '100 %' };

/** How many series are drawn by themselves; the others are added up where that makes sense. */
export const TOPS = [5, 10, 20, 50] as const;
export const TOP_DEFAULT = 10;

/** How long before the range the numbers are that a chart shows beside its own. */
export const BEFORES = ['1d', '1w'] as const;
export type Before = (typeof BEFORES)[number];

export const BEFORE_LABELS: Record<Before, string> = { '1d': 'a day before', '1w': 'a week before' };
export const BEFORE_MS: Record<Before, number> = { '1d': 86_400_000, '1w': 7 * 86_400_000 };

/** Rows of a chart; the page says so if an answer has as many. */
export const CHART_ROWS_MAX = 20_000;

/** Names of series that a link keeps; further ones are not kept. */
const NAMES_MAX = 60;
const NAME_CHARS_MAX = 200;

/** Null, where allowed, stands for what fits the result. */
export interface ChartOptions {
  kind: Kind | null;
  stack: Stack | null;
  log: boolean;
  unit: Unit | null;
  /** The columns of numbers that are drawn. */
  values: readonly string[] | null;
  /** The width of a bucket: `auto` or a duration such as `5m`; null leaves it to the query. */
  step: string | null;
  /** Labels of series that are hidden, or, if there are any, the only ones that are shown. */
  hidden: readonly string[];
  only: readonly string[];
  top: number;
  /** Shows the same numbers of an earlier time besides. */
  before: Before | null;
}

export const NO_OPTIONS: ChartOptions = { kind: null, stack: null, log: false, unit: null, values: null, step: null, hidden: [], only: [], top: TOP_DEFAULT, before: null };

function oneOf<T extends string>(list: readonly T[], value: unknown): T | null {
  return typeof value === 'string' && (list as readonly string[]).includes(value) ? (value as T) : null;
}

function names(values: unknown): string[] {
  if (!Array.isArray(values)) return [];
  return values.filter((value): value is string => typeof value === 'string' && value.length <= NAME_CHARS_MAX).slice(0, NAMES_MAX);
}

function stepOf(value: unknown): string | null {
  if (value === 'auto') return 'auto';
  return typeof value === 'string' && (parseDuration(value) ?? 0) > 0 ? value : null;
}

/** Options from a document or link of any version: what is unknown or broken becomes the default. */
export function readOptions(value: unknown): ChartOptions {
  const of = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
  const columns = names(of['values']);
  return {
    kind: oneOf(KINDS, of['kind']),
    stack: oneOf(STACKS, of['stack']),
    log: of['log'] === true,
    unit: oneOf(UNITS, of['unit']),
    values: columns.length > 0 ? columns : null,
    step: stepOf(of['step']),
    hidden: names(of['hidden']),
    only: names(of['only']),
    top: (TOPS as readonly unknown[]).includes(of['top']) ? (of['top'] as number) : TOP_DEFAULT,
    before: oneOf(BEFORES, of['before']),
  };
}

/** The options that differ from the defaults: what a document keeps. */
export function changedOptions(options: ChartOptions): Partial<ChartOptions> {
  const changed = Object.entries(options).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(NO_OPTIONS[name as keyof ChartOptions]));
  return Object.fromEntries(changed) as Partial<ChartOptions>;
}

/** Writes options into the query string of a link. */
export function writeOptions(params: URLSearchParams, options: ChartOptions): void {
  const { kind, stack, log, unit, values, step, hidden, only, top, before } = options;
  if (kind !== null) params.set('chart', kind);
  if (stack !== null) params.set('stack', stack);
  if (log) params.set('log', '1');
  if (unit !== null) params.set('unit', unit);
  if (step !== null) params.set('step', step);
  if (top !== TOP_DEFAULT) params.set('top', String(top));
  if (before !== null) params.set('before', before);
  for (const name of names(values ?? [])) params.append('show', name);
  for (const name of names(hidden)) params.append('hide', name);
  for (const name of names(only)) params.append('only', name);
}

export function optionsFromParams(params: URLSearchParams): ChartOptions {
  return readOptions({
    kind: params.get('chart'),
    stack: params.get('stack'),
    log: params.get('log') === '1',
    unit: params.get('unit'),
    values: params.getAll('show'),
    step: params.get('step'),
    hidden: params.getAll('hide'),
    only: params.getAll('only'),
    top: Number(params.get('top')),
    before: params.get('before'),
  });
}

export function isShown(options: Pick<ChartOptions, 'hidden' | 'only'>, label: string): boolean {
  return options.only.length > 0 ? options.only.includes(label) : !options.hidden.includes(label);
}

type Choice = Pick<ChartOptions, 'hidden' | 'only'>;

/** Hides a series or shows it again. Hiding the last one shows all. */
export function toggleSeries(options: Choice, label: string, all: readonly string[]): Choice {
  const { hidden, only } = options;
  if (only.length > 0) {
    const next = only.includes(label) ? only.filter((one) => one !== label) : [...only, label];
    return all.every((one) => next.includes(one)) ? { hidden: [], only: [] } : { hidden: [], only: next };
  }
  const next = hidden.includes(label) ? hidden.filter((one) => one !== label) : [...hidden, label];
  return all.every((one) => next.includes(one)) ? { hidden: [], only: [] } : { hidden: next, only: [] };
}

/** Shows only this series; if it is the only one already, all of them. */
export function onlySeries(options: Choice, label: string): Choice {
  const isAlone = options.only.length === 1 && options.only[0] === label;
  return { hidden: [], only: isAlone ? [] : [label] };
}
