// Patterns of messages: the query that finds them, and the query for the lines of one.

import { splitOutside } from './stats';
import { addFilter, filterOf, quote, splitQuery } from './logsql';

/** Patterns that are shown: the most frequent ones. */
export const PATTERNS_SHOWN = 200;

/** What stands before the last pipe, if that finds patterns of messages; else null. */
export function beforePatterns(query: string): string | null {
  const parts = splitOutside(query, '|');
  const last = parts[parts.length - 1];
  if (parts.length < 2 || !last || !/^\s*patterns\b(?!.*\bof\b)/is.test(last.text)) return null;
  return query.slice(0, last.from - 1).trim();
}

/** The patterns of the lines that a query selects; or, where it finds patterns, the lines again. */
export function togglePatterns(query: string): string {
  return beforePatterns(query) ?? `${filterOf(query)} | patterns ${PATTERNS_SHOWN}`;
}

/** The lines of a pattern, among those that patterns were found in. */
export function linesOfPattern(before: string, pattern: string): string {
  const filter = `pattern_match_full(${quote(pattern)})`;
  return splitQuery(before).pipes === '' ? addFilter(before, filter) : `${before} | filter ${filter}`;
}
