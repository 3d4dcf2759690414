// From a point of a chart to the lines it was counted from.

import { addFilter, boundFilter, inFilter, splitQuery } from '../query/logsql';
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

/** The query for the lines of a point: what stands before the pipe that grouped them, and the filters of the group. */
export function linesQuery(pipe: StatsPipe, { group, fn, range }: Point): string {
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
  const { pipes } = splitQuery(pipe.before);
  // Pipes before the grouping may make the fields that it groups by.
  if (pipes !== '') return filters.length === 0 ? pipe.before : `${pipe.before} | filter ${filters.join(' ')}`;
  const all = filters.reduce((query, filter) => addFilter(query, filter), pipe.before);
  return all === '*' ? '' : all;
}

function upTo(field: string, value: number): string {
  return boundFilter(field, '<=', String(value)).replace(/:<=/, ':<');
}
