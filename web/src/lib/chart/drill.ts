// From a point of a chart to the lines it was counted from.

import type { Span } from '../base/time';
import { addFilter, boundFilter, hasFieldFilter, inFilter, splitQuery, timeFilter } from '../query/logsql';
import type { StatsFunction, StatsPipe } from '../query/stats';

/** What a point stands for. */
export interface Point {
  /** The values of its group; null for no group or the sum of several. */
  group: ReadonlyMap<string, string> | null;
  /** The function of its column. */
  fn: StatsFunction | null;
  /** Numbers of a field. */
  range?: { field: string; from: number; to: number } | undefined;
}

/** Whether points of this query lead to lines: rows of a second `stats` are no groups of lines. */
export function leadsToLines(pipe: StatsPipe | null): pipe is StatsPipe {
  return pipe !== null && pipe.count === 1;
}

/** The filters of a point. */
function filtersOf(pipe: StatsPipe, { group, fn, range }: Point): string[] {
  const filters: string[] = [];
  for (const [field, value] of group ?? []) {
    const step = pipe.keys.find((key) => key.name === field)?.step ?? null;
    const number = Number(value);
    const size = Number(step);
    if (step === null) filters.push(inFilter(field, [value]));
    else if (value !== '' && !Number.isNaN(number) && size > 0) filters.push(boundFilter(field, '>=', String(number)), upTo(field, number + size));
    // A group by networks or other steps gets no filter: the query then shows more lines than the group has, never fewer.
  }
  if (fn?.filter) filters.push(`(${fn.filter})`);
  if (range) {
    if (range.from > 0) filters.push(boundFilter(range.field, '>=', String(range.from)));
    if (range.to !== Infinity) filters.push(upTo(range.field, range.to));
  }
  return filters;
}

/** A query with further filters. Pipes may make the fields that the filters are about, so these stand behind them. */
function narrowed(query: string, filters: readonly string[]): string {
  if (splitQuery(query).pipes !== '') return filters.length === 0 ? query : `${query} | filter ${filters.join(' ')}`;
  return filters.reduce((text, filter) => addFilter(text, filter), query);
}

/** The query for the lines of a point: what stands before the pipe that grouped them, and the filters of the group. */
export function linesQuery(pipe: StatsPipe, point: Point): string {
  const all = narrowed(pipe.before, filtersOf(pipe, point));
  return all === '*' ? '' : all;
}

/** The lines of any of some points. */
export function linesOfAny(pipe: StatsPipe, points: readonly Point[]): string {
  const all = narrowed(pipe.before, anyOf(pipe, points));
  return all === '*' ? '' : all;
}

function anyOf(pipe: StatsPipe, points: readonly Point[]): string[] {
  const each = points.map((point) => filtersOf(pipe, point).join(' '));
  if (each.includes('')) return [];
  return each.length === 1 ? each : [`(${each.map((filter) => `(${filter})`).join(' or ')})`];
}

/**
 * Compares the lines of some points at some time, such as a box on a heat map, with all lines outside of it that have the
 * fields: others differ in all ways.
 */
export function explainQuery(pipe: StatsPipe, points: readonly Point[], fields: readonly string[], at: Span): string {
  const scope = narrowed(pipe.before || '*', fields.map(hasFieldFilter));
  return `${scope} | differences where (${[timeFilter(at), ...anyOf(pipe, points)].join(' ')})`;
}

function upTo(field: string, value: number): string {
  return boundFilter(field, '<=', String(value)).replace(/:<=/, ':<');
}
