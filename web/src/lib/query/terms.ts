// What a query searches for, so that it can be marked in the lines found: words, phrases, prefixes,
// texts anywhere, whole values and regular expressions, by the field they are searched in. Negated
// terms find nothing to mark.

import { splitQuery } from './logsql';
import { inside, literal, splitList, tokens, unquote } from './logsqlScan';

/** Terms beyond it are not marked: each costs a search in every shown text. */
const TERMS_MAX = 24;
/**
 * Characters of a text in which terms are marked. Values of fields may have megabytes, and `.*x`
 * looks at the rest of a text again from each of its characters.
 */
const MARKED_CHARS_MAX = 4_096;

export interface SearchedTerm {
  /** The field, `*` for any, `k8s.*` for those whose name begins so. */
  field: string;
  pattern: RegExp;
}

/**
 * The terms that a query searches for; those that it excludes, and comparisons, are not among them.
 */
export function searchedTerms(query: string): SearchedTerm[] {
  const found: SearchedTerm[] = [];
  collect(splitQuery(query).filter, '_msg', found);
  return found.slice(0, TERMS_MAX);
}

/**
 * The parts of a field's text that match a term, as `[from, to)`, in order and without overlaps.
 */
export function marksIn(text: string, field: string, terms: readonly SearchedTerm[]): [number, number][] {
  const marks: [number, number][] = [];
  const searched = text.slice(0, MARKED_CHARS_MAX);
  for (const term of terms) {
    if (!isOf(term.field, field)) continue;
    for (const match of searched.matchAll(term.pattern)) {
      if (match[0] !== '') marks.push([match.index, match.index + match[0].length]);
    }
  }
  marks.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  const merged: [number, number][] = [];
  for (const [from, to] of marks) {
    const last = merged[merged.length - 1];
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else merged.push([from, to]);
  }
  return merged;
}

function isOf(searched: string, field: string): boolean {
  return searched === field || (searched.endsWith('*') && field.startsWith(searched.slice(0, -1)));
}

function collect(filter: string, field: string, found: SearchedTerm[]): void {
  let negated = false;
  for (const token of tokens(filter)) {
    let text = token.text;
    const word = text.toLowerCase();
    if (word === '|') return;
    if (word === 'and' || word === 'or') continue;
    if (word === 'not') {
      negated = !negated;
      continue;
    }
    for (; /^[-!]/.test(text); text = text.slice(1)) negated = !negated;
    if (text === '') continue;
    if (!negated) term(text, field, found);
    negated = false;
  }
}

function term(text: string, field: string, found: SearchedTerm[]): void {
  const group = inside(text);
  if (group !== null) return collect(group, field, found);
  if (text.startsWith('{')) return;
  const pair = /^("(?:[^"\\]|\\.)*"|[A-Za-z_@][\w.@]*\*?|\*):(.*)$/s.exec(text);
  if (pair) {
    const name = pair[1] as string;
    if (name === '_time' || name === '_stream') return;
    return term(pair[2] as string, name.startsWith('"') ? unquote(name) : name, found);
  }
  const add = (source: string | null, flags = ''): void => {
    const pattern = source === null ? null : compile(source, flags);
    if (pattern) found.push({ field, pattern });
  };
  const call = /^([a-z_]+)(\(.*\))$/is.exec(text);
  if (call) {
    const list = inside(call[2] as string);
    if (list === null) return;
    const parts = splitList(list).map((part) => part.trim());
    const name = (call[1] as string).toLowerCase();
    if (name === 're') add(harmless(literal(list.trim())));
    else if (name === 'i') add(textPattern(list.trim()), 'i');
    else if (name === 'contains_common_case') for (const part of parts) add(textPattern(part), 'i');
    else if (name === 'contains_all' || name === 'contains_any' || name === 'seq') for (const part of parts) add(textPattern(part));
    else if (name === 'in' || name === 'exact') for (const part of parts) add(wholePattern(part));
    return;
  }
  if (text.startsWith('=')) {
    const group = inside(text.slice(1));
    if (group === null) add(wholePattern(text.slice(1)));
  } else if (text.startsWith('~')) add(harmless(literal(text.slice(1))));
  else if (!/^[<>]/.test(text)) add(textPattern(text));
}

const WORD = '[\\p{L}\\p{N}_]';

/** A word, a phrase, a prefix (`err*`) or a text anywhere (`*rro*`). */
function textPattern(text: string): string | null {
  const anywhere = text.startsWith('*') && text.length > 1;
  const prefix = text.endsWith('*') && text.length > 1;
  const value = literal(text.slice(anywhere ? 1 : 0, prefix ? -1 : undefined));
  if (value === null || value === '') return null;
  const before = anywhere || !new RegExp(`^${WORD}`, 'u').test(value) ? '' : `(?<!${WORD})`;
  const after = prefix || !new RegExp(`${WORD}$`, 'u').test(value) ? '' : `(?!${WORD})`;
  return `${before}${escape(value)}${after}`;
}

function wholePattern(text: string): string | null {
  const prefix = text.endsWith('*') && text.length > 1;
  const value = literal(prefix ? text.slice(0, -1) : text);
  return value === null || value === '' ? null : `^${escape(value)}${prefix ? '' : '$'}`;
}

/**
 * A regular expression that the browser can match quickly; null for any other. The server matches
 * in time proportional to the text, but the browser backtracks. So an expression with a repeated
 * group, or with several repetitions without an end, is not marked.
 */
function harmless(source: string | null): string | null {
  if (source === null || source === '') return null;
  const open = source.replace(/\\./gs, '').match(/[*+]|\{\d*,\d*\}/g)?.length ?? 0;
  return open > 1 || /\)[*+{?]/.test(source) ? null : source;
}

function compile(source: string, flags: string): RegExp | null {
  const inline = /^\(\?([ism]+)\)/.exec(source);
  try {
    return new RegExp(inline ? source.slice(inline[0].length) : source, `gu${flags}${inline?.[1] ?? ''}`);
  } catch {
    return null;
  }
}

function escape(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}
