// What changed: queries that compare two windows of time, or two groups of lines, and what their rows say.

import type { Row } from '../base/jsonl';
import { splitOutside } from '../query/stats';
import { addFilter, filterOf, hasFieldFilter, hasFilter, isFilter, quote, quoteField, splitQuery, timeFilter } from '../query/logsql';
import type { Span } from '../base/time';

/** The window before, as a multiple of the compared one. */
const BEFORE_SPANS = 4;
/** With less history than this share of the range before it, the end of the range is compared with its beginning. */
const HISTORY_MIN = 0.25;
/** That end, as a share of the range. */
const END_SHARE = 0.25;

/** A query and the range that it is run over. */
export interface Comparing {
  query: string;
  span: Span;
}

/** A query that ends in the pipe `differences`, in parts. */
export interface Comparison {
  /** What stands before the pipe. */
  before: string;
  /** The filter of the selected side. */
  where: string;
  /** The selected side, if it is a window of time. */
  selected: Span | null;
}

/** The query in parts, if it compares; else null. */
export function comparisonOf(query: string): Comparison | null {
  const parts = splitOutside(query, '|');
  const last = parts[parts.length - 1];
  if (parts.length < 2 || !last) return null;
  const pipe = /^\s*differences\s+(?:\d+\s+)?where\s*\(([\s\S]*)\)\s*(?:scale\s+\S+)?\s*$/i.exec(last.text);
  if (!pipe) return null;
  const where = (pipe[1] as string).trim();
  const time = /^_time:\[([^,\s]+),\s*([^\s)\]]+)\)$/.exec(where);
  const [startMs, endMs] = [Date.parse(time?.[1] ?? ''), Date.parse(time?.[2] ?? '')];
  const selected = Number.isFinite(startMs) && endMs > startMs ? { startMs, endMs } : null;
  return { before: query.slice(0, last.from - 1).trim(), where, selected };
}

/**
 * Compares a range with the time before it. Where the store has no lines from before, the end of the range is compared
 * with its beginning.
 */
export function compareWithBefore(query: string, span: Span, stored: Span | null): Comparing {
  // The page may know an older state of the store than that of the lines it looks at.
  const earliest = stored !== null && stored.startMs < span.endMs ? stored.startMs : Math.min(0, span.startMs);
  let { startMs } = span;
  const { endMs } = span;
  let from = Math.max(startMs - BEFORE_SPANS * (endMs - startMs), earliest);
  if (startMs - from < HISTORY_MIN * (endMs - startMs)) {
    from = Math.max(startMs, Math.min(earliest, endMs - 1));
    startMs = Math.floor(endMs - (endMs - from) * END_SHARE);
  }
  const scale = Number(((endMs - startMs) / Math.max(1, startMs - from)).toPrecision(6));
  return {
    query: `${filterOf(query)} | differences where (${timeFilter({ startMs, endMs })}) scale ${scale}`,
    span: { startMs: Math.floor(from), endMs },
  };
}

/**
 * Compares the lines of a filter with the others. With the field that the filter is about, only lines that have it are
 * compared: others differ from them in all ways, and say nothing.
 */
export function compareWithOthers(query: string, filter: string, field: string | null = null): string {
  const scope = field === null || field === '' ? filterOf(query) : addFilter(filterOf(query), hasFieldFilter(field));
  return `${scope} | differences where (${filter})`;
}

/** One difference, as the server found it. */
export interface Difference {
  /** `first`: a pattern that no other row has, too rare to be a difference. */
  kind: 'pattern' | 'value' | 'number' | 'first';
  field: string;
  value: string;
  selected: number;
  expected: number;
  others: number;
  rises: boolean;
  /** `new`: the other rows have none of it; `gone`: the selected rows have none. */
  turn: 'new' | 'gone' | null;
  firstMs: number | null;
  lastMs: number | null;
  with: [field: string, value: string][];
  example: string;
  shift: { percentile: number; from: number; to: number; written: string } | null;
}

const KINDS: readonly string[] = ['pattern', 'value', 'number', 'first'] satisfies Difference['kind'][];

function timeOf(text: string | undefined): number | null {
  const ms = Date.parse(text ?? '');
  return Number.isFinite(ms) ? ms : null;
}

/** The fields in common; the server writes them as an object of texts. */
function commonOf(text: string | undefined): [string, string][] {
  if (!text) return [];
  const object: unknown = JSON.parse(text);
  return Object.entries(object as Record<string, unknown>).map(([field, value]) => [field, String(value)]);
}

export function differencesOf(rows: readonly Row[]): Difference[] {
  return rows.filter((row) => KINDS.includes(row['kind'] ?? '')).map((row) => {
    const number = (name: string): number => Number(row[name] ?? 0);
    const [kind, selected, expected, others] = [row['kind'] as Difference['kind'], number('selected'), number('expected'), number('others')];
    const turn = kind === 'number' ? null : others === 0 ? 'new' : selected === 0 ? 'gone' : null;
    const shift =
      kind === 'number' ? { percentile: 100 * number('quantile'), from: number('from'), to: number('to'), written: row['from'] ?? '0' } : null;
    return {
      kind,
      field: row['field'] ?? '',
      value: row['value'] ?? '',
      selected,
      expected,
      others,
      rises: number('score') > 0,
      turn,
      firstMs: timeOf(row['first']),
      lastMs: timeOf(row['last']),
      with: commonOf(row['with']),
      example: row['example'] ?? '',
      shift,
    };
  });
}

/** Tells a difference from all others of a comparison. */
export function keyOf({ kind, field, value }: Difference): string {
  return `${kind} ${field} ${value}`;
}

/** The filter for the lines of a difference. */
export function filterOfDifference(one: Difference): string {
  if (one.kind === 'pattern' || one.kind === 'first') return `pattern_match_full(${quote(one.value)})`;
  if (one.kind === 'value') return isFilter(one.field, one.value);
  const { from, to, written } = one.shift as NonNullable<Difference['shift']>;
  return `${quoteField(one.field)}:${to > from ? '>' : '<'}${written}`;
}

/** The lines of a difference: those of the selected side, or, of what is gone, the last ones of the other side. */
export function linesOfDifference(comparison: Comparison, one: Difference, span: Span): Comparing {
  const { before, where, selected } = comparison;
  const filter = filterOfDifference(one);
  const others = { startMs: span.startMs, endMs: selected?.startMs ?? span.endMs };
  const inWindow = selected === null ? span : one.turn === 'gone' ? others : selected;
  const side = selected === null && one.turn !== 'gone' ? where : '';
  const add = (query: string, more: string, text = more): string => {
    // A row that is the filter itself, such as a value that was searched for, says nothing new.
    if (more === '' || hasFilter(query, more)) return query;
    return splitQuery(query).pipes === '' ? addFilter(query, text) : `${query} | filter ${text}`;
  };
  return { query: add(add(before, filter), side, `(${side})`), span: inWindow };
}

/** The lines that those of a difference are compared with: of the same side, and with the field that it is about. */
export function scopeOfDifference(comparison: Comparison, one: Difference, span: Span): Comparing {
  const { before, selected } = comparison;
  const isAboutField = one.kind === 'value' || one.kind === 'number';
  const scope = splitQuery(before).pipes === '' && isAboutField ? addFilter(filterOf(before), hasFieldFilter(one.field)) : filterOf(before);
  return { query: scope, span: selected ?? span };
}

/** Compares the lines of a difference with the others of the same side: what do they have in common? */
export function commonOfDifference(comparison: Comparison, one: Difference, span: Span): Comparing {
  const { query, span: within } = scopeOfDifference(comparison, one, span);
  return { query: `${query} | differences where (${filterOfDifference(one)})`, span: within };
}
