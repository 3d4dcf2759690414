// Which role each part of a query plays: for colours, for help on a word, and for what may come at
// the caret. Built on the lexemes of logsqlScan; like them it never fails, and only the server
// decides whether a query is valid.

import { helpOn, keywordsOf } from './logsqlHelp';
import { lexemes, type Lexeme } from './logsqlScan';

export type Role = 'pipe' | 'function' | 'filter' | 'field' | 'keyword' | 'text' | 'number' | 'operator' | 'comment' | 'bracket' | 'word';

export interface Part {
  role: Role;
  text: string;
  from: number;
  to: number;
}

/** What the parts before a place say about it. */
export interface Place {
  /** A filter, directly behind a `|`, or behind the name of a pipe. */
  stage: 'filter' | 'pipe-name' | 'pipe';
  /** The pipe that it is in; '' in a filter, and for the short form of `stats`. */
  pipe: string;
  /** The parenthesis around the place, such as `by` or a function; '' without one. */
  call: string;
  /** The role of that name. */
  callRole: Role | null;
  /** The field that a value would belong to: behind `field:`, or within `field:in(`. */
  field: string | null;
  /** Functions of `stats` may begin here. */
  functions: boolean;
}

const START: Place = { stage: 'filter', pipe: '', call: '', callRole: null, field: null, functions: false };

/** Pipes that compute functions over rows. */
export const STATS_PIPES: ReadonlySet<string> = new Set(['stats', 'running_stats', 'total_stats']);
/** Pipes behind whose name a filter stands. */
const FILTER_PIPES: ReadonlySet<string> = new Set(['filter', 'where']);
/** Pipes whose parentheses without a name before them hold a query. */
const QUERY_PIPES: ReadonlySet<string> = new Set(['join', 'union']);
const LOGIC: ReadonlySet<string> = new Set(['and', 'or', 'not']);
const CALLED: ReadonlySet<string> = new Set(['by', 'if', 'partition']);
const NUMBER = /^[-+]?(?:0x[0-9a-f_]+|\d[\d_]*(?:\.\d+)?(?:[a-zµ]+\d*)*)$/i;

/** The parts of a query, and what may come at its end. */
export function readParts(query: string): { parts: Part[]; end: Place } {
  const found = lexemes(query).filter(({ kind }) => kind !== 'space');
  const parts: Part[] = [];
  /** For each open parenthesis the place before it, and whether a list of groups is in it. */
  const outer: { place: Place; isBy: boolean }[] = [];
  let at: Place = START;
  found.forEach((lexeme, index) => {
    const role = roleOf(lexeme, found, index, at);
    parts.push({ role, text: lexeme.text, from: lexeme.from, to: lexeme.to });
    if (role === 'comment') return;
    if (lexeme.kind === 'sign' && lexeme.text === '(') {
      outer.push({ place: at, isBy: ['keyword', 'pipe'].includes(parts[index - 1]?.role ?? '') });
      at = opened(at, found, parts, index);
    } else if (lexeme.kind === 'sign' && lexeme.text === ')') {
      const before = outer.pop();
      at = { ...(before?.place ?? START), field: null, functions: before !== undefined && before.isBy && before.place.functions };
    } else at = behind(at, lexeme, role, found[index - 1]);
  });
  return { parts, end: at };
}

/** The place behind an opening parenthesis. */
function opened(at: Place, found: readonly Lexeme[], parts: readonly Part[], index: number): Place {
  const name = parts[index - 1];
  const touches = found[index - 1]?.to === found[index]?.from;
  if (at.stage === 'filter') {
    const isCall = name?.role === 'filter' && touches;
    return { ...START, call: isCall ? name.text.toLowerCase() : '', callRole: isCall ? 'filter' : null, field: at.field };
  }
  if (name?.role === 'keyword' && name.text.toLowerCase() === 'if') return START;
  if (name?.role === 'keyword' || name?.role === 'function') {
    return { ...at, call: name.text.toLowerCase(), callRole: name.role, field: null, functions: false };
  }
  if (QUERY_PIPES.has(at.pipe)) return START;
  // `stats (a, b) …` and the like: `by` may be left out.
  return { ...at, call: 'by', callRole: 'keyword', field: null, functions: false };
}

/** The place behind a lexeme that is no parenthesis. */
function behind(at: Place, { kind, text }: Lexeme, role: Role, before: Lexeme | undefined): Place {
  if (kind === 'sign' && text === '|') return { ...at, stage: 'pipe-name', pipe: '', field: null, functions: true, call: '' };
  if (at.stage === 'pipe-name') {
    const pipe = role === 'pipe' ? (helpOn('pipe', text)?.name ?? '') : '';
    if (FILTER_PIPES.has(pipe)) return START;
    return { ...at, stage: 'pipe', pipe, functions: STATS_PIPES.has(pipe) };
  }
  if (at.stage === 'pipe') return { ...at, functions: (at.functions && role === 'keyword') || (text === ',' && (at.pipe === '' || STATS_PIPES.has(at.pipe)) && at.call === '') };
  if (text === ':') return { ...at, field: before === undefined ? null : nameOf(before) };
  // Within `field:in(a, b)` the field stays, and behind `field:` up to its value.
  if (at.callRole === 'filter' || role === 'operator' || role === 'filter') return at;
  return { ...at, field: null };
}

/** The name that a lexeme stands for. */
function nameOf({ kind, text }: Lexeme): string {
  if (kind !== 'text') return text.replace(/^[-!]+/, '');
  return text.slice(1, text.endsWith(text[0] as string) && text.length > 1 ? -1 : undefined).replace(/\\(.)/g, '$1');
}

function roleOf(lexeme: Lexeme, found: readonly Lexeme[], index: number, at: Place): Role {
  const { kind, text, to } = lexeme;
  if (kind === 'comment') return 'comment';
  const next = found[index + 1];
  const isField = next?.text === ':' && next.from === to;
  if (kind === 'sign') return '()[]{}'.includes(text) ? 'bracket' : 'operator';
  if (kind === 'text') return isField && at.stage === 'filter' ? 'field' : 'text';
  const word = text.toLowerCase();
  const isCall = next?.text === '(';
  if (at.stage === 'filter') {
    if (isField) return 'field';
    if (LOGIC.has(word)) return 'keyword';
    if (isCall && next.from === to && helpOn('filter', word.replace(/^[-!]+/, '')) !== null) return 'filter';
    return NUMBER.test(text) ? 'number' : 'word';
  }
  if (at.stage === 'pipe-name') {
    // The word `stats` may be left out: `| count() n`.
    if (isCall && helpOn('pipe', word) === null && helpOn('function', word) !== null) return 'function';
    return helpOn('pipe', word) === null ? 'word' : 'pipe';
  }
  if (NUMBER.test(text)) return 'number';
  if (at.call === '' && isCall && helpOn('function', word) !== null && isStats(at)) return 'function';
  // A field may be called like a keyword; within parentheses these two alone are ones.
  if (at.call !== '') return word === 'desc' || word === 'asc' ? 'keyword' : 'field';
  const pipe = helpOn('pipe', at.pipe === '' ? 'stats' : at.pipe);
  if (word === 'as' || word === 'by' || (CALLED.has(word) && isCall)) return 'keyword';
  return pipe !== null && keywordsOf(pipe).includes(word) ? 'keyword' : 'field';
}

/** Whether functions of `stats` may stand in the pipe at this place. */
export function isStats({ stage, pipe }: Place): boolean {
  return stage !== 'filter' && (pipe === '' || STATS_PIPES.has(pipe));
}
