// Texts in the syntax of Lucene and Kibana, as people type them out of habit. The server translates; here it is only
// decided when it is asked. LogsQL reads some of them as something else without an error: `_exists_:user` as a field of
// that name, `host:/web.*/` as the word `web`.

import { lexemes } from './logsqlScan.ts';
import { splitQuery } from './logsql.ts';

/** What only Lucene means so, outside of quotes. */
const UNMISTAKABLE = [
  /(?:^|[\s(+!-])_exists_:/, // a field that is there
  /[\w.@-]:\s?[[{]\s*[^\s\]}]+\s+TO\s+[^\s\]}]+\s*[\]}]/, // [a TO b]
  /(?:^|[\s(])[\w.@-]+:\/[^/\s][^/]*\/(?=$|[\s)])/, // host:/re/
  /(?:^|\s)&&(?=\s)/,
  /(?:^|\s)\|\|(?=\s)/,
];
/** Operators in capitals beside `field:value`, which LogsQL has too; with one of its own forms it is LogsQL. */
const OPERATOR = /(?:^|[\s)])(?:AND|OR)(?=[\s(])/;
const FIELD = /(?:^|[\s(!-])[A-Za-z_@][\w.@-]*:(?=[^\s])/;
const LOGSQL = /:[=~]|_time:|_stream:|\b(?!(?:AND|OR|NOT)\()\w+[[(]|(?:^|\s)[{*]|[~=<>!]"|\|(?!\|)/;

/** The text without what is in quotes and comments. */
function bare(text: string): string {
  return lexemes(text).map(({ kind, text: part }) => (kind === 'text' ? '""' : kind === 'comment' ? ' ' : part)).join('');
}

/** Whether a query is certainly meant as Lucene. */
export function isLucene(query: string): boolean {
  const text = bare(query);
  if (UNMISTAKABLE.some((form) => form.test(text))) return true;
  return OPERATOR.test(text) && FIELD.test(text) && !LOGSQL.test(text);
}

/** The part of a query that may be Lucene, and the pipes behind it. `||` is no pipe. */
export function luceneParts(query: string): { text: string; pipes: string } {
  if (/\|\|/.test(bare(query))) return { text: query.trim(), pipes: '' };
  const { filter, pipes } = splitQuery(query);
  return { text: filter, pipes };
}

/**
 * The text to translate, or null. A query that cannot be parsed may be Lucene too, if its mistake is not in its pipes;
 * `position` is the character of the mistake.
 */
export function askedAsLucene(query: string, position: number | null): string | null {
  const { text, pipes } = luceneParts(query);
  if (text === '' || text === '*') return null;
  if (isLucene(text)) return text;
  const isWrong = position !== null && (pipes === '' || position < query.lastIndexOf(pipes));
  return isWrong && /[:/[\]{}&|+^\\]/.test(bare(text)) ? text : null;
}

/** The whole query in LogsQL; null if the translation says nothing new. */
export function translated(query: string, logsql: string): string | null {
  const { text, pipes } = luceneParts(query);
  const plain = (one: string): string => one.replace(/\s+/g, ' ').trim();
  return plain(logsql) === plain(text) ? null : `${logsql}${pipes && ` ${pipes}`}`;
}
