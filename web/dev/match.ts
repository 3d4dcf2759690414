// The part of LogsQL that working on the page needs: words, phrases, prefixes, field:=, field:"",
// field:~, comparisons, and, or, not, parentheses. The server has the real parser.

import type { Line } from './corpus.ts';

type Test = (line: Line) => boolean;

export class WrongQuery extends Error {
  constructor(message: string, readonly position: number, readonly expected: string[]) {
    super(message);
  }
}

interface Token {
  text: string;
  quoted: boolean;
  at: number;
}

function scan(query: string): Token[] {
  const tokens: Token[] = [];
  const pattern = /\s*(?:("(?:[^"\\]|\\.)*")|([()|,!-])|(:(?:=|~|>=|<=|>|<)?)|([^\s()|,:"]+))/gy;
  let at = 0;
  while (query.slice(at).trim() !== '') {
    pattern.lastIndex = at;
    const found = pattern.exec(query);
    if (!found) throw new WrongQuery('this string has no closing quote', query.indexOf('"', at), ['"']);
    const text = found[1] ? (JSON.parse(found[1]) as string) : (found[0] as string).trim();
    tokens.push({ text, quoted: found[1] !== undefined, at: pattern.lastIndex - (found[0] as string).trimStart().length });
    at = pattern.lastIndex;
  }
  return tokens;
}

export function compile(query: string): Test {
  const tokens = scan(query);
  let next = 0;
  const peek = (): Token | undefined => tokens[next];
  const is = (text: string): boolean => peek()?.quoted === false && peek()?.text.toLowerCase() === text;
  const fail = (expected: string[]): never => {
    throw new WrongQuery(`the query ends or goes wrong here`, peek()?.at ?? query.length, expected);
  };

  const either = (): Test => {
    const all = [both()];
    while (is('or')) {
      next++;
      all.push(both());
    }
    return (line) => all.some((test) => test(line));
  };
  const both = (): Test => {
    const all = [not()];
    for (;;) {
      if (is('and')) next++;
      else if (!peek() || is(')') || is('or') || is('|')) break;
      all.push(not());
    }
    return (line) => all.every((test) => test(line));
  };
  const not = (): Test => {
    if (is('not') || is('-') || is('!')) {
      next++;
      const test = not();
      return (line) => !test(line);
    }
    if (is('(')) {
      next++;
      const test = either();
      if (!is(')')) fail([')', 'and', 'or']);
      next++;
      return test;
    }
    return term();
  };
  const term = (): Test => {
    const token = peek();
    if (!token || (!token.quoted && /^[)|,:]/.test(token.text))) return fail(['a field name', 'a word', '(']);
    next++;
    const operator = peek();
    if (!operator || operator.quoted || !operator.text.startsWith(':')) return word('_msg', token);
    next++;
    const value = peek();
    if (!value) return fail(['a value', '(']);
    next++;
    const field = token.text;
    switch (operator.text) {
      case ':=':
        return (line) => (line[field] ?? '') === value.text;
      case ':~': {
        const pattern = new RegExp(value.text);
        return (line) => pattern.test(line[field] ?? '');
      }
      case ':':
        return value.quoted && value.text === '' ? (line) => (line[field] ?? '') === '' : word(field, value);
      default: {
        const compare = { ':>': (a: number, b: number) => a > b, ':>=': (a: number, b: number) => a >= b, ':<': (a: number, b: number) => a < b, ':<=': (a: number, b: number) => a <= b }[operator.text] as (a: number, b: number) => boolean;
        return (line) => line[field] !== undefined && compare(Number(line[field]), Number(value.text));
      }
    }
  };
  const word = (field: string, token: Token): Test => {
    if (!token.quoted && token.text === '*') return (line) => field === '_msg' || (line[field] ?? '') !== '';
    const prefix = !token.quoted && token.text.endsWith('*');
    const text = (prefix ? token.text.slice(0, -1) : token.text).toLowerCase();
    return (line) => {
      const value = (line[field] ?? '').toLowerCase();
      for (let at = value.indexOf(text); at >= 0; at = value.indexOf(text, at + 1)) {
        const before = at === 0 || !/\w/.test(value[at - 1] as string);
        const after = prefix || at + text.length === value.length || !/\w/.test(value[at + text.length] as string);
        if (before && after) return true;
      }
      return false;
    };
  };

  if (tokens.length === 0) return () => true;
  const test = either();
  if (next < tokens.length) fail(['and', 'or', '|']);
  return test;
}
