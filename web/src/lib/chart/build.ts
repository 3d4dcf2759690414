// Queries for charts from choices instead of text, and the choices that a query stands for.

import { filterOf, quoteField, splitQuery } from '../query/logsql';
import { statsOf } from '../query/stats';

/** Functions that the builder offers, and whether each is about a field. */
export const BUILDER_FUNCTIONS = {
  count: { label: 'count of lines', field: false },
  count_uniq: { label: 'different values of', field: true },
  sum: { label: 'sum of', field: true },
  avg: { label: 'average of', field: true },
  min: { label: 'least', field: true },
  max: { label: 'greatest', field: true },
  median: { label: 'median of', field: true },
  p90: { label: '90th percentile of', field: true },
  p99: { label: '99th percentile of', field: true },
  percentiles: { label: 'p50, p90 and p99 of', field: true },
  histogram: { label: 'distribution of', field: true },
  rate: { label: 'lines a second', field: false },
} as const;
export type BuilderFunction = keyof typeof BUILDER_FUNCTIONS;

export interface Builder {
  fn: BuilderFunction;
  /** Empty for functions without a field. */
  field: string;
  by: readonly string[];
  /** `auto`, a duration, or empty for no buckets of time. */
  step: string;
}

/** Steps that the builder offers. */
export const BUILDER_STEPS = ['auto', '10s', '1m', '5m', '15m', '1h', '1d'] as const;

const quantile = (share: string, field: string, name: string): string => `quantile(${share}, ${quoteField(field)}) ${name}`;

function functionText(fn: BuilderFunction, field: string): string {
  switch (fn) {
    case 'count':
      return 'count() lines';
    case 'rate':
      return 'rate() lines_a_second';
    case 'p90':
      return quantile('0.9', field, 'p90');
    case 'p99':
      return quantile('0.99', field, 'p99');
    case 'percentiles':
      return [quantile('0.5', field, 'p50'), quantile('0.9', field, 'p90'), quantile('0.99', field, 'p99')].join(', ');
    case 'histogram':
      return `histogram(${quoteField(field)}) distribution`;
    default:
      return `${fn}(${quoteField(field)}) ${nameFor(fn, field)}`;
  }
}

/** A name for a column that needs no quotes, and that tells its unit: `avg_duration_ms`. */
function nameFor(fn: string, field: string): string {
  return `${fn}_${field.replace(/[^A-Za-z0-9_]+/g, '_')}`;
}

/** The query with what is built as its pipe; `stepText` is the width that stands for `auto`. */
export function buildQuery(query: string, { fn, field, by, step }: Builder, stepText: string): string {
  const pipe = statsOf(query);
  const before = pipe ? pipe.before : query.trim();
  const keys = [...(step === '' ? [] : [`_time:${step === 'auto' ? stepText : step}`]), ...by.map(quoteField)];
  const grouping = keys.length === 0 ? '' : `by (${keys.join(', ')}) `;
  return `${before || '*'} | stats ${grouping}${functionText(fn, field)}`;
}

/** Whether the choices make a query. */
export function isComplete({ fn, field }: Builder): boolean {
  return !BUILDER_FUNCTIONS[fn].field || field.trim() !== '';
}

/** The choices that a query stands for; the defaults if it has no pipe, or one that the builder cannot make. */
export function builderOf(query: string): Builder {
  const pipe = statsOf(query);
  const start: Builder = { fn: 'count', field: '', by: [], step: 'auto' };
  if (pipe?.pipe !== 'stats') return start;
  const time = pipe.keys.find((key) => key.name === '_time');
  const by = pipe.keys.filter((key) => key !== time).map((key) => key.name);
  const step = time ? (time.step ?? 'auto') : '';
  const [first, ...more] = pipe.functions;
  if (!first) return { ...start, by, step };
  const field = first.field ?? '';
  if (more.length > 0 && pipe.functions.every((one) => one.fn === 'quantile' && one.field === field)) return { fn: 'percentiles', field, by, step };
  if (first.fn === 'quantile') return { fn: /0\.9\d/.test(pipe.functionsText) ? 'p99' : 'p90', field, by, step };
  return first.fn in BUILDER_FUNCTIONS ? { fn: first.fn as BuilderFunction, field, by, step } : { ...start, field, by, step };
}

/** The filter of a query, its pipes that make fields included, for another question about the same lines. */
function linesOf(query: string): string {
  const pipe = statsOf(query);
  if (pipe) return pipe.before || '*';
  return splitQuery(query).pipes === '' ? filterOf(query) : query;
}

/** p50, p90 and p99 of a field over time. */
export function percentilesOver(query: string, field: string, stepText: string): string {
  return buildQuery(linesOf(query), { fn: 'percentiles', field, by: [], step: stepText }, stepText);
}

/** How often which numbers of a field come. */
export function distributionOver(query: string, field: string): string {
  return buildQuery(linesOf(query), { fn: 'histogram', field, by: [], step: '' }, '');
}

/** The same over time: a heat map. */
export function heatOver(query: string, field: string, stepText: string): string {
  return buildQuery(linesOf(query), { fn: 'histogram', field, by: [], step: stepText }, stepText);
}

/** Lines over time for each value of a field. */
export function linesOver(query: string, field: string, stepText: string): string {
  return buildQuery(linesOf(query), { fn: 'count', field: '', by: [field], step: stepText }, stepText);
}

/** The lines of each value of a field. */
export function topOver(query: string, field: string): string {
  return buildQuery(linesOf(query), { fn: 'count', field: '', by: [field], step: '' }, '');
}
