// The part of LogsQL that the page must know: quoting, where the filter ends and the pipes begin, and which terms are at
// the top level. Only the server decides whether a query is valid.

import type { Span } from '../base/time.ts';
import { alternatives, inside, isEscaped, literal, quoteEnd, splitList, tokens, uncommented, unquote } from './logsqlScan.ts';

/** A value as a LogsQL string literal. JSON's escapes are a subset of LogsQL's. */
export function quote(value: string): string {
  return JSON.stringify(value);
}

const RESERVED = new Set(['and', 'or', 'not', 'in', 'by', 'as', 'if']);

export function quoteField(name: string): string {
  return /^[A-Za-z_@][A-Za-z0-9_.@]*$/.test(name) && !RESERVED.has(name.toLowerCase()) ? name : quote(name);
}

/** The filter for lines whose field has exactly this value; an empty value means that the field is missing. */
export function isFilter(field: string, value: string): string {
  return value === '' ? `${quoteField(field)}:""` : `${quoteField(field)}:=${quote(value)}`;
}

/** The filter for lines whose field has one of these values. */
export function inFilter(field: string, values: readonly string[]): string {
  if (values.length === 1) return isFilter(field, values[0] as string);
  return `(${values.map((value) => isFilter(field, value)).join(' or ')})`;
}

/** The filter for lines that have a value in this field. */
export function hasFieldFilter(field: string): string {
  return `${quoteField(field)}:*`;
}

/** The filter for lines of this time. */
export function timeFilter({ startMs, endMs }: Span): string {
  return `_time:[${new Date(startMs).toISOString()}, ${new Date(endMs).toISOString()})`;
}

export function notFilter(filter: string): string {
  return `NOT ${filter}`;
}

/** The filter for lines whose number is so much or more (`>=`), or so much or less (`<=`). */
export function boundFilter(field: string, operator: '>=' | '<=', value: string): string {
  return `${quoteField(field)}:${operator}${value}`;
}

/** Bounds a field; another bound of the same kind is replaced, and the same one removed. */
export function toggleBound(query: string, field: string, operator: '>=' | '<=', value: string): string {
  const bound = boundFilter(field, operator, value);
  const split = splitQuery(query);
  if (hasTopLevelOr(split.filter)) return addFilter(query, bound);
  const begin = boundFilter(field, operator, '');
  const others = terms(split.filter).filter((term) => !term.startsWith(begin));
  const next = allOf(...others, ...(hasFilter(query, bound) ? [] : [bound]));
  return split.pipes ? `${next} ${split.pipes}` : next;
}

/** Filters that must all hold. */
export function allOf(...filters: readonly string[]): string {
  return filters.filter((filter) => filter !== '' && filter !== '*').join(' ') || '*';
}

export interface SplitQuery {
  filter: string;
  /** With the leading `|`, or empty. */
  pipes: string;
}

export function splitQuery(query: string): SplitQuery {
  const pipe = tokens(query).find((token) => token.text === '|');
  if (!pipe) return { filter: uncommented(query), pipes: '' };
  return { filter: uncommented(query.slice(0, pipe.from)), pipes: query.slice(pipe.from).trim() };
}

/** The filter that selects lines, without pipes; `*` if it is empty. */
export function filterOf(query: string): string {
  return splitQuery(query).filter || '*';
}

/** The top-level terms of a filter; a negation is one term with what it negates. */
function terms(filter: string): string[] {
  const list: string[] = [];
  let negation = '';
  for (const token of tokens(filter)) {
    const word = token.text.toLowerCase();
    if (word === 'and') continue;
    if (word === 'not') {
      negation += 'NOT ';
      continue;
    }
    list.push(negation + token.text);
    negation = '';
  }
  if (negation) list.push(negation.trim());
  return list;
}

function hasTopLevelOr(filter: string): boolean {
  return tokens(filter).some((token) => token.text.toLowerCase() === 'or');
}

export function hasFilter(query: string, filter: string): boolean {
  const split = splitQuery(query).filter;
  return !hasTopLevelOr(split) && terms(split).includes(filter);
}

/** Adds a term to a query and removes its negation. Pipes stay. */
export function addFilter(query: string, filter: string): string {
  const split = splitQuery(query);
  const opposite = filter.startsWith('NOT ') ? filter.slice(4) : notFilter(filter);
  let next: string;
  if (split.filter === '' || split.filter === '*') {
    next = filter;
  } else if (hasTopLevelOr(split.filter)) {
    next = `(${split.filter}) ${filter}`;
  } else if (terms(split.filter).includes(filter)) {
    next = split.filter;
  } else if (terms(split.filter).includes(opposite)) {
    next = allOf(...terms(split.filter).filter((term) => term !== opposite), filter);
  } else {
    next = `${split.filter} ${filter}`;
  }
  return split.pipes ? `${next} ${split.pipes}` : next;
}

export function removeFilter(query: string, filter: string): string {
  const split = splitQuery(query);
  const next = allOf(...terms(split.filter).filter((term) => term !== filter));
  return split.pipes ? `${next} ${split.pipes}` : next;
}

export function toggleFilter(query: string, filter: string): string {
  return hasFilter(query, filter) ? removeFilter(query, filter) : addFilter(query, filter);
}

// ---- chosen values ----

/** The values of a field that the top-level terms of a filter select or exclude. */
export interface ChosenValues {
  included: string[];
  excluded: string[];
}

interface ValueTerm {
  field: string;
  values: string[];
  negated: boolean;
}

/** The values that a term selects of one field; null for other kinds of terms (words, ranges, patterns). */
function valueTerm(term: string): ValueTerm | null {
  let rest = term;
  let negated = false;
  for (let prefix = /^(?:NOT\s+|[-!])/i.exec(rest); prefix; prefix = /^(?:NOT\s+|[-!])/i.exec(rest)) {
    negated = !negated;
    rest = rest.slice(prefix[0].length);
  }
  const group = inside(rest);
  if (group !== null) {
    const parts = alternatives(group)?.map(valueTerm);
    const field = parts?.[0]?.field;
    if (!parts || field === undefined || parts.some((part) => part === null || part.negated || part.field !== field)) return null;
    return { field, values: parts.flatMap((part) => (part as ValueTerm).values), negated };
  }
  const pair = /^("(?:[^"\\]|\\.)*"|[A-Za-z_@][\w.@]*):(.*)$/s.exec(rest);
  if (!pair) return null;
  const field = (pair[1] as string).startsWith('"') ? unquote(pair[1] as string) : (pair[1] as string);
  const values = valuesOf(pair[2] as string);
  return values && values.length > 0 ? { field, values, negated } : null;
}

/** The values behind `field:`. */
function valuesOf(text: string): string[] | null {
  if (text === '""') return [''];
  let parts: string[] | null;
  if (text.startsWith('=')) parts = [text.slice(1)];
  else if (/^in\(/i.test(text)) {
    const list = inside(text.slice(2));
    parts = list === null ? null : splitList(list);
  } else {
    const group = inside(text);
    parts = group === null ? null : alternatives(group);
    if (parts?.some((part) => !part.startsWith('='))) return null;
    parts = parts?.map((part) => part.slice(1)) ?? null;
  }
  const values = parts?.map((part) => literal(part.trim()));
  return !values || values.includes(null) ? null : (values as string[]);
}

/** The values that a query has chosen, by field. A query with a top-level `or` has chosen none. */
export function chosenValues(query: string): Map<string, ChosenValues> {
  const chosen = new Map<string, ChosenValues>();
  const filter = splitQuery(query).filter;
  if (hasTopLevelOr(filter)) return chosen;
  for (const term of terms(filter)) {
    const said = valueTerm(term);
    if (!said) continue;
    const values = chosen.get(said.field) ?? { included: [], excluded: [] };
    const list = said.negated ? values.excluded : values.included;
    for (const value of said.values) if (!list.includes(value)) list.push(value);
    chosen.set(said.field, values);
  }
  return chosen;
}

/** The query with another choice for a field; terms about other fields keep their position. */
function choose(query: string, field: string, { included, excluded }: ChosenValues): string {
  const split = splitQuery(query);
  const fresh = [
    ...(included.length > 0 ? [inFilter(field, included)] : []),
    ...excluded.map((value) => notFilter(isFilter(field, value))),
  ];
  const list: string[] = [];
  let placed = false;
  const old = split.filter === '*' ? [] : hasTopLevelOr(split.filter) ? [`(${split.filter})`] : terms(split.filter);
  for (const term of old) {
    if (valueTerm(term)?.field !== field || hasTopLevelOr(split.filter)) {
      list.push(term);
    } else if (!placed) {
      list.push(...fresh);
      placed = true;
    }
  }
  if (!placed) list.push(...fresh);
  const next = allOf(...list);
  return split.pipes ? `${next} ${split.pipes}` : next;
}

const without = (values: readonly string[], value: string): string[] => values.filter((other) => other !== value);

/** Adds a value to the chosen ones of its field, or removes it. */
export function toggleValue(query: string, field: string, value: string): string {
  const { included, excluded } = chosenValues(query).get(field) ?? { included: [], excluded: [] };
  const chosen = included.includes(value) ? without(included, value) : [...included, value];
  return choose(query, field, { included: chosen, excluded: without(excluded, value) });
}

/** Excludes lines with a value, or undoes that. */
export function toggleExcluded(query: string, field: string, value: string): string {
  const { included, excluded } = chosenValues(query).get(field) ?? { included: [], excluded: [] };
  const left = excluded.includes(value) ? without(excluded, value) : [...excluded, value];
  return choose(query, field, { included: without(included, value), excluded: left });
}

/** Chooses several values of a field together, or removes them if all are chosen. */
export function toggleValues(query: string, field: string, values: readonly string[]): string {
  const { included, excluded } = chosenValues(query).get(field) ?? { included: [], excluded: [] };
  const rest = included.filter((value) => !values.includes(value));
  const next = values.every((value) => included.includes(value)) ? rest : [...included, ...values.filter((value) => !included.includes(value))];
  return choose(query, field, { included: next, excluded: excluded.filter((value) => !values.includes(value)) });
}

/** The query without its choice for a field: it finds the other values of the field. */
export function withoutChoice(query: string, field: string): string {
  return choose(query, field, { included: [], excluded: [] });
}

/** Closes the open quotes and brackets of a query that is still being typed, so that a term can be appended. */
export function closed(query: string): string {
  const open: string[] = [];
  for (let at = 0; at < query.length; at++) {
    const char = query[at] as string;
    if (char === '"' || char === "'" || char === '`') {
      const end = quoteEnd(query, at);
      if (end === at || query[end] !== char || isEscaped(query, end, at)) {
        // A trailing backslash would escape the quote.
        const body = char !== '`' && isEscaped(query, query.length, at) ? query.slice(0, -1) : query;
        return body + char + open.reverse().join('');
      }
      at = end;
    } else if (char === '(') open.push(')');
    else if (char === '[') open.push(']');
    else if (char === '{') open.push('}');
    else if (char === ')' || char === ']' || char === '}') open.pop();
  }
  return query + open.reverse().join('');
}

/** The names in `by (…)` of the pipes: the columns that identify a row of a table. */
export function keyColumns(query: string): Set<string> {
  const names = new Set<string>();
  for (const [, list] of splitQuery(query).pipes.matchAll(/\bby\s*\(([^)]*)\)/gi)) {
    for (const part of splitList(list as string)) {
      const name = part.trim().replace(/:.*$/s, '');
      if (name !== '') names.add(literal(name) ?? name);
    }
  }
  return names;
}

/** Whether the pipes set the order of the rows. */
export function isOrdered(query: string): boolean {
  return tokens(splitQuery(query).pipes).some((token, at, all) => all[at - 1]?.text === '|' && /^(sort|order|top|first|last|uniq|facets|patterns|differences|limit|head|tail)$/i.test(token.text));
}

/** The server counts bytes of UTF-8; a string is indexed by UTF-16 units. */
export function charOfByte(text: string, byte: number): number {
  let bytes = 0;
  let chars = 0;
  for (const char of text) {
    if (bytes >= byte) break;
    const code = char.codePointAt(0) as number;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    chars += char.length;
  }
  return chars;
}
