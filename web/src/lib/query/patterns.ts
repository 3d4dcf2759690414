// Patterns of messages: the query that finds them, the query for the lines of one, and what stands in their places.

import { literal } from './logsqlScan';
import { splitOutside } from './stats';
import { addFilter, filterOf, notFilter, quote, quoteField, splitQuery } from './logsql';

/** Patterns that are shown: the most frequent ones. */
export const PATTERNS_SHOWN = 200;
/** What stands for a part that varies. */
const PLACE = '<*>';
/** Places whose values are looked at; a message with more has no pattern worth it. */
export const PLACES_MAX = 8;
const MESSAGE = '_msg';

function lastPipe(query: string): { before: string; text: string } | null {
  const parts = splitOutside(query, '|');
  const last = parts[parts.length - 1];
  return parts.length < 2 || !last ? null : { before: query.slice(0, last.from - 1).trim(), text: last.text.trim() };
}

/** What stands before the last pipe, if that finds patterns of messages; else null. */
export function beforePatterns(query: string): string | null {
  const last = lastPipe(query);
  return last === null || !/^patterns\b(?!.*\bof\b)/is.test(last.text) ? null : last.before;
}

/** The lines whose patterns a query finds, and the field; null if it finds none, or those of groups. */
export function patternsOf(query: string): { before: string; field: string } | null {
  const last = lastPipe(query);
  const pipe = last === null ? null : /^patterns(?:\s+\d+)?(?:\s+of\s+(\S.*))?$/is.exec(last.text);
  const field = pipe?.[1] === undefined ? MESSAGE : (literal(pipe[1]) ?? pipe[1]);
  return last === null || pipe === null || /\s|\(/.test(pipe[1] === undefined ? '' : field) ? null : { before: last.before, field };
}

/** The query for the patterns of a field. */
export function patternsQuery(before: string, field: string): string {
  return `${before || '*'} | patterns ${PATTERNS_SHOWN}${field === MESSAGE ? '' : ` of ${quoteField(field)}`}`;
}

/** The patterns of the lines that a query selects; or, where it finds patterns, the lines again. */
export function togglePatterns(query: string): string {
  return beforePatterns(query) ?? patternsOf(query)?.before ?? patternsQuery(filterOf(query), MESSAGE);
}

/** The filter for messages, or values of a field, that a pattern fits. */
export function patternFilter(pattern: string, field = MESSAGE): string {
  return `${field === MESSAGE ? '' : `${quoteField(field)}:`}pattern_match_full(${quote(pattern)})`;
}

/** The characters of a pattern that are text: the more, the fewer messages it fits. */
export function literalLength(pattern: string): number {
  return pattern.split(PLACE).join('').length;
}

/** What stands in the places of a pattern; null if a text does not have it. */
export function placesIn(pattern: string, text: string): string[] | null {
  const [first = '', ...rest] = pattern.split(PLACE);
  if (!text.startsWith(first)) return null;
  let at = first.length;
  const found: string[] = [];
  for (const [index, part] of rest.entries()) {
    const isLast = index === rest.length - 1;
    const next = isLast ? text.length - part.length : text.indexOf(part, at);
    if (next < at || !text.startsWith(part, next)) return null;
    // Two places side by side: the first one has nothing, as far as can be told.
    found.push(text.slice(at, next));
    at = next + part.length;
  }
  return rest.length > 0 || text.length === first.length ? found : null;
}

/**
 * Filters for exactly the lines that were counted for a pattern: those that it fits, and not a more special pattern of the
 * same list, whose lines it would fit too.
 */
export function patternFilters(pattern: string, all: readonly string[], field = MESSAGE): string[] {
  const special = all.filter((other) => other !== pattern && literalLength(other) > literalLength(pattern) && placesIn(pattern, other) !== null);
  return [patternFilter(pattern, field), ...special.map((other) => notFilter(patternFilter(other, field)))];
}

function narrowed(before: string, filters: readonly string[]): string {
  return splitQuery(before).pipes === '' ? filters.reduce((query, filter) => addFilter(query, filter), before || '*') : `${before} | filter ${filters.join(' ')}`;
}

/** The lines of a pattern, among those that patterns were found in. */
export function linesOfPattern(before: string, pattern: string, all: readonly string[] = [], field = MESSAGE): string {
  return narrowed(before, patternFilters(pattern, all, field));
}

/** The patterns of all lines but those of one pattern. */
export function ignorePattern(before: string, pattern: string, field: string): string {
  return patternsQuery(narrowed(before, [notFilter(patternFilter(pattern, field))]), field);
}

// ---- what stands in the places ----

export interface Place {
  /** The name of the field that its values are extracted into, which says its unit. */
  name: string;
  isNumber: boolean;
  /** The value in the example. */
  example: string;
}

const DURATION = /^\d+(\.\d+)?(ns|us|µs|ms|s|m|h)$/;
const NUMBER = /^[-+]?\d+(\.\d+)?$/;
const UNIT_BEHIND = /^\s*(ms|us|ns|s|sec|seconds|bytes|percent)(?![A-Za-z0-9])/;

/** The places of a pattern; none if the example does not fit it, or if there are too many. */
export function placesOf(pattern: string, example: string): Place[] {
  const line = (example.split('\n')[0] ?? '').replace(/\s+/g, ' ').trim();
  const values = placesIn(pattern.trim(), line) ?? [];
  if (values.length > PLACES_MAX) return [];
  const behind = pattern.split(PLACE).slice(1);
  return values.map((value, index) => {
    const [isDuration, isNumber] = [DURATION.test(value), NUMBER.test(value)];
    const unit = isDuration ? 'ns' : isNumber ? (UNIT_BEHIND.exec(behind[index] ?? '')?.[1] ?? '') : '';
    return { name: `place${index + 1}${unit === '' ? '' : `_${unit}`}`, isNumber: isDuration || isNumber, example: value };
  });
}

/** The lines of a pattern with what stands in its places as fields. */
export function placesQuery(lines: string, pattern: string, places: readonly Place[], field = MESSAGE): string {
  const parts = pattern.trim().split(PLACE).map((part) => part.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&').replace(/ /g, '\\s+'));
  const text = parts.reduce((regexp, part, index) => (index === 0 ? part : `${regexp}(?P<${places[index - 1]?.name ?? `place${index}`}>.*?)${part}`), '');
  return `${lines} | extract_regexp ${quote(`^\\s*${text}\\s*(?:\\n|$)`)} from ${quoteField(field)}`;
}
