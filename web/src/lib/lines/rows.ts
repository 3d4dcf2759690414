// Which fields of a line go into which column, and which can be filtered.

import type { Row } from '../base/jsonl';
import { clockParts, timeToMs, timeToNs } from '../base/time';

/** The field with the level of a line, which sets its colour, and the one with its type. */
export const LEVEL_FIELD = '_level';
export const TYPE_FIELD = '_type';

/** Identifies a row for the state of the page (expanded, active). */
export function rowKey(row: Row): string {
  return row['_line_id'] ?? `${row['_time'] ?? ''} ${row['_stream'] ?? ''} ${row['_msg'] ?? ''}`;
}

export function hostOf(row: Row): string {
  return row['hostname'] ?? row['host'] ?? '';
}

export function appOf(row: Row): string {
  return row['app_name'] ?? row['app'] ?? row['service'] ?? row['service.name'] ?? '';
}

const ELSEWHERE = new Set(['level', 'severity', 'hostname', 'app_name']);

/** The message; for lines without one (JSON), their fields as `name=value`. */
export function messageOf(row: Row): string {
  const message = row['_msg'];
  if (message !== undefined && message !== '') return message;
  return Object.entries(row)
    .filter(([name]) => !name.startsWith('_') && !ELSEWHERE.has(name))
    .map(([name, value]) => `${name}=${value}`)
    .join(' ');
}

/** Text cut to a length, with a note of how much is missing. */
export function clip(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : `${text.slice(0, charsMax)}… (${text.length - charsMax} more characters)`;
}

const FIRST = ['_time', '_msg', '_type', '_level', 'level', 'hostname', 'app_name', 'proc_id'];
const LAST = ['_stream', '_received', '_line_id'];

/** The fields in reading order. `_line` is shown separately. */
export function fieldsOf(row: Row): [string, string][] {
  const place = (name: string): number => {
    const first = FIRST.indexOf(name);
    if (first >= 0) return first;
    const last = LAST.indexOf(name);
    return last >= 0 ? 1000 + last : 100;
  };
  return Object.entries(row)
    .filter(([name]) => name !== '_line' && name !== '_stream_id' && name !== '_is_target')
    .sort(([a], [b]) => place(a) - place(b) || (a < b ? -1 : 1));
}

/** Virtual fields are shown but cannot be filtered by value. */
export function canFilter(name: string): boolean {
  return !['_time', '_stream', '_received', '_line_id', '_line'].includes(name);
}

/** Reuses the objects of rows that are already shown, so that a refresh does not disturb focus and scrolling. */
export function reuseRows(shown: readonly Row[], fresh: readonly Row[]): Row[] {
  const known = new Map(shown.filter((row) => row['_line_id'] !== undefined).map((row) => [row['_line_id'], row]));
  return fresh.map((row) => {
    const same = known.get(row['_line_id']);
    if (!same || row['_line_id'] === undefined) return row;
    known.delete(row['_line_id']);
    return same;
  });
}

/** A refreshed first page, with the further rows that were loaded behind its last one. */
export function keepFurther(shown: readonly Row[], fresh: readonly Row[]): Row[] {
  const last = fresh[fresh.length - 1]?.['_line_id'];
  const at = last === undefined ? -1 : shown.findIndex((row) => row['_line_id'] === last);
  return at < 0 ? [...fresh] : [...fresh, ...shown.slice(at + 1)];
}

/** Where a page of lines begins: a bound of the range in nanoseconds, and how many lines of it to skip. */
export interface PageStart {
  startNs?: bigint;
  endNs?: bigint;
  offset: number;
}

/**
 * Where the next page begins: everything from the time of the last row on, minus the rows of that time that are there
 * already. So lines with the same timestamp are neither lost nor shown twice, however many there are. Null if no row has a
 * time.
 */
export function pageBehind(rows: readonly Row[], oldestFirst: boolean): PageStart | null {
  const last = rows[rows.length - 1]?.['_time'];
  const lastNs = last === undefined ? null : timeToNs(last);
  if (lastNs === null) return null;
  const offset = rows.filter((row) => row['_time'] === last).length;
  return oldestFirst ? { startNs: lastNs, offset } : { endNs: lastNs + 1n, offset };
}

/** Whether a row is of another day than this moment; the rows may be in any order. */
export function hasOtherDays(rows: readonly Row[], nowMs: number, utc: boolean): boolean {
  const today = clockParts(nowMs, utc).date;
  return rows.some((row) => clockParts(timeToMs(row['_time'] ?? ''), utc).date !== today);
}

/** The keys of rows, each once: rows without an id may be the same. */
export function keysOf(rows: readonly Row[]): string[] {
  const seen = new Set<string>();
  return rows.map((row, index) => {
    let key = rowKey(row);
    if (seen.has(key)) key = `${key}#${index}`;
    seen.add(key);
    return key;
  });
}
