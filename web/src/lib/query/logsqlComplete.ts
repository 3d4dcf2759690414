// What can be completed at the caret of a query, and the query with a completion in it.

import { quote, quoteField } from './logsql';
import { isStats, readParts, type Part } from './logsqlParts';
import { isOpenText } from './logsqlScan';

/**
 * What a completion is: a field with a colon, for a filter; the name of a field, for a pipe; a
 * value behind `field:`; one of a list of values; a pipe, a function, a filter that is written as a
 * function; a word of a pipe's syntax.
 */
export type Choice = 'field' | 'name' | 'value' | 'item' | 'pipe' | 'function' | 'filter' | 'keyword';

export interface Completable {
  kind: Exclude<Choice, 'filter' | 'keyword'>;
  /** The field, when values are completed. */
  field: string;
  /** The pipe around the caret; '' in a filter. */
  pipe: string;
  /** The typed part, without quotes, and where it begins. */
  typed: string;
  typedFrom: number;
  /** The range of the query that a completion replaces. */
  from: number;
  to: number;
}

const NAME = /^[A-Za-z_@]?[\w.@]*$/;

export function completableAt(query: string, caret: number): Completable | null {
  const head = query.slice(0, caret);
  const { parts } = readParts(head);
  const last = parts[parts.length - 1];
  const touches = last !== undefined && last.to === caret;
  if (touches && last.role === 'comment') return null;
  const isText = touches && /^["'`]/.test(last.text);
  if (isText && !isOpenText(last.text)) return null;
  const isWord = touches && !isText && last.role !== 'bracket' && last.role !== 'operator';
  if (touches && (last.text.startsWith(')') || last.text === '*')) return null;
  const begin = isText || isWord ? last.from : caret;
  const { parts: before, end: place } = readParts(head.slice(0, begin));
  const typed = isText ? last.text.slice(1) : isWord ? last.text : '';
  const found = { field: '', pipe: place.pipe, typed, typedFrom: isText ? begin + 1 : begin, from: begin, to: caret };

  if (place.stage === 'filter' && place.field !== null) {
    const from = valueFrom(before, begin);
    if (from !== null) return { ...found, kind: 'value', field: place.field, from };
    const opens = /^[(,]$/.test(before[before.length - 1]?.text ?? '');
    if (place.callRole === 'filter' && opens) return { ...found, kind: 'item', field: place.field };
  }
  if (isText) return null;
  const sign = /^[-!]*/.exec(typed)?.[0].length ?? 0;
  const word = typed.slice(sign);
  if (!NAME.test(word)) return null;
  const named = { ...found, typed: word, typedFrom: begin + sign, from: begin + sign };
  if (place.stage === 'pipe-name') return { ...named, kind: 'pipe' };
  if (place.stage === 'filter') {
    const previous = before[before.length - 1];
    const behindSign = previous?.role === 'operator' && previous.to === begin && previous.text !== '!';
    return behindSign || place.callRole === 'filter' ? null : { ...named, kind: 'field' };
  }
  if (place.functions) return { ...named, kind: 'function' };
  const previous = before[before.length - 1];
  // Behind `as` and behind a function stands a new name.
  if (previous?.role === 'keyword' && previous.text.toLowerCase() === 'as') return null;
  if (isStats(place) && place.call === '') return null;
  return { ...named, kind: 'name' };
}

/** Where a value begins that ends at `begin`: behind `field:` or `field:=`. */
function valueFrom(before: readonly Part[], begin: number): number | null {
  const [colon, last] = [before[before.length - 2], before[before.length - 1]];
  if (last === undefined || last.to !== begin) return null;
  if (last.text === ':') return begin;
  return last.text === '=' && colon?.text === ':' ? last.from : null;
}

/** The query with a completion inserted, and the new position of the caret. */
export function complete(query: string, at: Completable, text: string, kind: Choice = at.kind): { query: string; caret: number } {
  let inserted: string;
  let back = 0;
  if (kind === 'field') inserted = `${quoteField(text)}:`;
  else if (kind === 'name') inserted = quoteField(text);
  else if (kind === 'value') inserted = `=${quote(text)} `;
  else if (kind === 'item') inserted = quote(text);
  else if (kind === 'pipe') inserted = `${query[at.from - 1] === '|' ? ' ' : ''}${text} `;
  else if (kind === 'keyword') inserted = `${text} `;
  else {
    inserted = `${text}()`;
    back = 1;
  }
  const rest = query.slice(at.to);
  const tail = inserted.endsWith(' ') && rest.startsWith(' ') ? rest.slice(1) : rest;
  return { query: query.slice(0, at.from) + inserted + tail, caret: at.from + inserted.length - back };
}
