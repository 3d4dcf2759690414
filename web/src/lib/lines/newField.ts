// A field made of a part of messages that somebody marked: a pattern of the pipe `extract` is
// proposed from the text around it, tried on the lines that are there, and written as a pipe or as
// a rule at ingest. Pure.

import { quoteField, quote } from '../query/logsql';

/** The texts around a field. */
export interface FieldPattern {
  /** What stands before the field; it is found first. */
  before: string;
  /** What stands behind it; empty up to the end of the message. */
  behind: string;
}

/** Characters around the marked part that a proposal may take. */
const AROUND_CHARS_MAX = 60;
/** Words before the marked part that a proposal may take. */
const WORDS_MAX = 6;

/**
 * What the pattern finds in a message; null if its texts are not there. The server finds the same.
 */
export function extracted(message: string, { before, behind }: FieldPattern): string | null {
  const at = before === '' ? 0 : message.indexOf(before);
  if (at < 0) return null;
  const from = at + before.length;
  const to = behind === '' ? message.length : message.indexOf(behind, from);
  return to < 0 ? null : message.slice(from, to);
}

/**
 * A pattern that finds the marked part: as few words before it as find this part and not another
 * one, and what ends it. Digits before it are likely to vary, so words without them are taken
 * first. Null if no text around it finds it.
 */
export function proposedPattern(message: string, from: number, to: number): FieldPattern | null {
  const marked = message.slice(from, to);
  if (marked === '' || marked.includes('\n')) return null;
  const words = [...message.slice(Math.max(0, from - AROUND_CHARS_MAX), from).matchAll(/\S+\s*/g)].map(({ 0: word }) => word);
  const befores = Array.from({ length: Math.min(words.length, WORDS_MAX) }, (_, count) => words.slice(-1 - count).join(''));
  // Behind `user=` or `(` stands what belongs to the part; a word of digits says nothing.
  const end = /[^\p{N}\s]+\s*$/u.exec(message.slice(0, from))?.[0] ?? '';
  const behinds = [...new Set([/^\s*\S/.exec(message.slice(to))?.[0] ?? '', /^\S{0,3}\s/.exec(message.slice(to))?.[0] ?? '', message.slice(to, to + 1), to === message.length ? '' : message.slice(to, to + AROUND_CHARS_MAX)])];
  const preferred = [end, ...befores].filter((before) => /[\p{L}=:]/u.test(before));
  const tries = [...preferred.filter((before) => !/\d/.test(before)), ...preferred, ...befores, ''];
  for (const before of tries) {
    for (const behind of [message.slice(to, to + 1), ...behinds]) {
      if (behind === '' && to !== message.length) continue;
      if (extracted(message, { before, behind }) === marked && (before !== '' || from === 0)) return { before, behind };
    }
  }
  return null;
}

/** A name from what stands before the field: `user=` → `user`, `took ` → `took`. */
export function proposedName({ before }: FieldPattern): string {
  const word = /([A-Za-z][\w.-]*)["'\s:=([<]*$/.exec(before)?.[1] ?? '';
  return word === '' ? 'value' : word.replace(/[^\w.]+/g, '_').slice(0, 40).toLowerCase();
}

/** Whether a field may have this name. */
export function isFieldName(name: string): boolean {
  return /^[A-Za-z][\w.]{0,63}$/.test(name);
}

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** The pipe that makes the field. A field that has a value keeps it. */
export function extractPipe(name: string, { before, behind }: FieldPattern): string {
  // `plain`: of a part that begins with a quote, the server would take the quoted text alone.
  return `extract ${quote(`${escaped(before)}<plain:${name}>${escaped(behind)}`)} from _msg keep_original_fields`;
}

/** A query with the pipe behind its filter, before the pipes that it has. */
export function withField(query: string, pipe: string): string {
  const text = query.trim();
  return `${text === '' ? '*' : text} | ${pipe}`;
}

/** The rule at ingest that makes the field of lines like this one, as in the configuration. */
export function ruleFor(name: string, pattern: FieldPattern, field: string, value: string): string {
  const text = pattern.before.trim();
  const filter = [value === '' ? '' : `${quoteField(field)}:=${quote(value)}`, text === '' ? '' : `*${quote(text)}*`].filter((part) => part !== '').join(' ');
  return `[[rules]]\nname = ${quote(`field ${name}`)}\n${filter === '' ? '' : `filter = ${quote(filter)}\n`}pipes = ${quote(extractPipe(name, pattern))}\n`;
}

export interface Tried {
  /** Lines that get the field, of those that were tried. */
  found: number;
  lines: number;
  /** Some of the values, each once. */
  values: string[];
}

const VALUES_MAX = 8;

export function tried(messages: readonly string[], pattern: FieldPattern): Tried {
  const values = messages.map((message) => extracted(message, pattern)).filter((value) => value !== null && value !== '');
  return { found: values.length, lines: messages.length, values: [...new Set(values as string[])].slice(0, VALUES_MAX) };
}
