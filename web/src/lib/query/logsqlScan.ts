// Reading LogsQL without a grammar: tokens, quotes, brackets, literals, lists. Never fails: what is
// still being typed is read as far as it goes.

export type LexemeKind = 'space' | 'comment' | 'text' | 'sign' | 'word';

/** The smallest parts of a query; together they are the whole of it. */
export interface Lexeme {
  kind: LexemeKind;
  text: string;
  from: number;
  to: number;
}

/** `or`, `app_name`, `10.0.0.1`, `1h`, `re-sent`; a sign of an operator ends a word. */
const WORD = /[^\s"'`()[\]{},|:=!~<>*]+/y;
const OPERATOR = /[=!~<>]+/y;
const SPACE = /\s+/y;
const COMMENT = /#[^\n]*/y;

/**
 * Cuts a query into words, texts in quotes, signs, comments and blanks. An open quote extends to
 * the end.
 */
export function lexemes(query: string): Lexeme[] {
  const found: Lexeme[] = [];
  for (let at = 0; at < query.length; ) {
    const char = query[at] as string;
    const match = (pattern: RegExp): string => {
      pattern.lastIndex = at;
      return pattern.exec(query)?.[0] ?? '';
    };
    let kind: LexemeKind = 'sign';
    let text: string;
    if (char === '"' || char === "'" || char === '`') {
      kind = 'text';
      text = query.slice(at, quoteEnd(query, at) + 1);
    } else if (char === '#') {
      // A `#` directly behind a word belongs to the word, which the pattern of words has consumed.
      kind = 'comment';
      text = match(COMMENT);
    } else if ((text = match(SPACE)) !== '') kind = 'space';
    else if ((text = match(WORD)) !== '') kind = 'word';
    else text = match(OPERATOR) || char;
    found.push({ kind, text, from: at, to: at + text.length });
    at += text.length;
  }
  return found;
}

/** A text without its comments: what is appended to it must not become part of one. */
export function uncommented(query: string): string {
  if (!query.includes('#')) return query.trim();
  return lexemes(query).map(({ kind, text }) => (kind === 'comment' ? '' : text)).join('').trim();
}

export interface Token {
  text: string;
  from: number;
  to: number;
}

/**
 * Splits a query at blanks, comments and pipes outside of quotes and brackets. A bracketed group is
 * one token; `field:(a or b)`, `f(x, y)` and `field:="a b"` are one token each. Never fails: an
 * open quote or bracket extends to the end.
 */
export function tokens(query: string): Token[] {
  const found: Token[] = [];
  let from = -1;
  let depth = 0;
  const close = (to: number): void => {
    if (from >= 0) found.push({ text: query.slice(from, to), from, to });
    from = -1;
  };
  for (const { kind, text, from: begin, to } of lexemes(query)) {
    if (depth === 0 && (kind === 'space' || kind === 'comment')) {
      close(begin);
    } else if (depth === 0 && text === '|') {
      close(begin);
      found.push({ text, from: begin, to });
    } else {
      if (kind === 'sign' && '([{'.includes(text)) depth++;
      if (kind === 'sign' && ')]}'.includes(text)) depth = Math.max(0, depth - 1);
      if (from < 0) from = begin;
    }
  }
  close(query.length);
  return found;
}

/** The index of the closing quote, or the last index if there is none. */
export function quoteEnd(query: string, start: number): number {
  const mark = query[start];
  for (let at = start + 1; at < query.length; at++) {
    if (query[at] === '\\' && mark !== '`') at++;
    else if (query[at] === mark) return at;
  }
  return query.length - 1;
}

/** Whether a text in quotes, from its first quote on, has no closing quote. */
export function isOpenText(text: string): boolean {
  const end = quoteEnd(text, 0);
  return end === 0 || text[end] !== text[0] || isEscaped(text, end, 0);
}

/** Whether the character at `at` belongs to an escape that begins after the quote at `from`. */
export function isEscaped(text: string, at: number, from: number): boolean {
  if (text[from] === '`') return false;
  let signs = 0;
  while (at - 1 - signs > from && text[at - 1 - signs] === '\\') signs++;
  return signs % 2 === 1;
}

/** A literal as written: quoted, or a word without special characters. Null for anything else. */
export function literal(text: string): string | null {
  if (/^"(?:[^"\\]|\\.)*"$/s.test(text)) {
    try {
      return JSON.parse(text) as string;
    } catch {
      return null;
    }
  }
  const plain = /^(['`])([^'`\\]*)\1$/s.exec(text);
  if (plain) return plain[2] as string;
  return /^[^\s"'`()[\]{},|:=!~<>*]+$/.test(text) ? text : null;
}

/** The text inside brackets that enclose all of it, or null. */
export function inside(text: string): string | null {
  if (!text.startsWith('(') || !text.endsWith(')')) return null;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string;
    if (char === '"' || char === "'" || char === '`') at = quoteEnd(text, at);
    else if (char === '(') depth++;
    else if (char === ')' && --depth === 0 && at < text.length - 1) return null;
  }
  return depth === 0 ? text.slice(1, -1) : null;
}

/** The parts of `a or b or c`; null if another operator joins them. */
export function alternatives(text: string): string[] | null {
  const parts = tokens(text).map((token) => token.text);
  for (let at = 1; at < parts.length; at += 2) if ((parts[at] as string).toLowerCase() !== 'or') return null;
  return parts.length % 2 === 1 ? parts.filter((_, at) => at % 2 === 0) : null;
}

/** Splits `a, "b,c"` at its commas. */
export function splitList(list: string): string[] {
  const parts: string[] = [];
  let from = 0;
  for (let at = 0; at < list.length; at++) {
    const char = list[at] as string;
    if (char === '"' || char === "'" || char === '`') at = quoteEnd(list, at);
    else if (char === ',') {
      parts.push(list.slice(from, at));
      from = at + 1;
    }
  }
  parts.push(list.slice(from));
  return parts;
}

export function unquote(text: string): string {
  try {
    return JSON.parse(text) as string;
  } catch {
    return text.slice(1, -1);
  }
}
