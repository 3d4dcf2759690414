// The little of LogsQL the page must know: how to quote, where the filter ends and the pipes begin, which terms
// stand at the top level, and what the caret stands in. Whether a query is right is for the server to say.

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

export function notFilter(filter: string): string {
  return `NOT ${filter}`;
}

/** Filters that must all hold. */
export function allOf(...filters: readonly string[]): string {
  return filters.filter((filter) => filter !== '' && filter !== '*').join(' ') || '*';
}

interface Token {
  text: string;
  from: number;
  to: number;
  /** Parentheses around the token that are still open. */
  depth: number;
}

/**
 * Cuts a query at blanks and pipes outside of quotes and brackets. A bracketed group is one token; `field:(a or b)`,
 * `f(x, y)` and `field:="a b"` are one token each. Never fails: an open quote or bracket runs to the end.
 */
function tokens(query: string): Token[] {
  const found: Token[] = [];
  let from = -1;
  let depth = 0;
  const close = (to: number): void => {
    if (from >= 0) found.push({ text: query.slice(from, to), from, to, depth });
    from = -1;
  };
  for (let at = 0; at < query.length; at++) {
    const char = query[at] as string;
    if (char === '"' || char === "'" || char === '`') {
      if (from < 0) from = at;
      at = quoteEnd(query, at);
    } else if (char === '(' || char === '[' || char === '{') {
      if (from < 0) from = at;
      depth++;
    } else if (char === ')' || char === ']' || char === '}') {
      depth = Math.max(0, depth - 1);
      if (from < 0) from = at;
    } else if (depth === 0 && (char === '|' || /\s/.test(char))) {
      close(at);
      if (char === '|') found.push({ text: '|', from: at, to: at + 1, depth: 0 });
    } else if (from < 0) {
      from = at;
    }
  }
  close(query.length);
  return found;
}

/** The index of the closing quote, or the last index when there is none. */
function quoteEnd(query: string, start: number): number {
  const mark = query[start];
  for (let at = start + 1; at < query.length; at++) {
    if (query[at] === '\\' && mark !== '`') at++;
    else if (query[at] === mark) return at;
  }
  return query.length - 1;
}

export interface SplitQuery {
  filter: string;
  /** With the leading `|`, or empty. */
  pipes: string;
}

export function splitQuery(query: string): SplitQuery {
  const pipe = tokens(query).find((token) => token.text === '|');
  if (!pipe) return { filter: query.trim(), pipes: '' };
  return { filter: query.slice(0, pipe.from).trim(), pipes: query.slice(pipe.from).trim() };
}

/** The part that says which lines, without what is made of them; `*` when it is empty. */
export function filterOf(query: string): string {
  return splitQuery(query).filter || '*';
}

/** The top-level terms of a filter, a negation together with what it negates. */
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

/** Adds a term to a query; its opposite is taken out. Pipes stay. */
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

/** What may be completed at the caret, and the range of the query it would replace. */
export interface Completable {
  kind: 'field' | 'value' | 'pipe';
  /** Set for values. */
  field: string;
  /** What is typed already, without quotes. */
  typed: string;
  from: number;
  to: number;
}

export const PIPES = ['stats', 'sort', 'limit', 'offset', 'fields', 'uniq', 'top'] as const;

export function completableAt(query: string, caret: number): Completable | null {
  const head = query.slice(0, caret);
  // Where the word under the caret begins: after the last blank, bracket or pipe outside of quotes.
  let from = 0;
  let inPipes = false;
  let pipeWord = false;
  for (let at = 0; at < head.length; at++) {
    const char = head[at] as string;
    if (char === '"' || char === "'" || char === '`') {
      const end = quoteEnd(head, at);
      if (end === head.length - 1 && (end === at || head[end] !== char)) break;
      at = end;
    } else if (char === '|') {
      from = at + 1;
      inPipes = true;
      pipeWord = true;
    } else if (/[\s(,]/.test(char)) {
      if (pipeWord && head.slice(from, at).trim() !== '') pipeWord = false;
      from = at + 1;
    } else if ((char === '-' || char === '!') && at === from) {
      from = at + 1;
    }
  }
  const word = head.slice(from);
  if (pipeWord) return { kind: 'pipe', field: '', typed: word, from, to: caret };

  const pair = /^("(?:[^"\\]|\\.)*"|[A-Za-z_@][\w.@]*):([=~!<>]{0,2})(.*)$/s.exec(word);
  if (pair && !inPipes) {
    const field = pair[1]?.startsWith('"') ? unquote(pair[1]) : (pair[1] as string);
    const operator = pair[2] as string;
    if (operator !== '' && operator !== '=') return null;
    const typed = pair[3] as string;
    if (/^["'`].*["'`]$/s.test(typed) && typed.length > 1) return null;
    const valueFrom = from + (pair[1] as string).length + 1;
    return { kind: 'value', field, typed: typed.replace(/^["'`]/, ''), from: valueFrom, to: caret };
  }
  if (!/^[A-Za-z_@]?[\w.@]*$/.test(word)) return null;
  return { kind: 'field', field: '', typed: word, from, to: caret };
}

function unquote(text: string): string {
  try {
    return JSON.parse(text) as string;
  } catch {
    return text.slice(1, -1);
  }
}

/** The query with a choice put in, and where the caret goes. */
export function complete(query: string, at: Completable, choice: string): { query: string; caret: number } {
  let text: string;
  if (at.kind === 'field') text = `${quoteField(choice)}:`;
  else if (at.kind === 'pipe') text = `${query[at.from - 1] === '|' ? ' ' : ''}${choice} `;
  else text = `=${quote(choice)} `;
  const rest = query.slice(at.to);
  const tail = text.endsWith(' ') && rest.startsWith(' ') ? rest.slice(1) : rest;
  return { query: query.slice(0, at.from) + text + tail, caret: at.from + text.length };
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
