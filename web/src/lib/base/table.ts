// Tables made by pipes: which columns are times and numbers, how they are formatted, and the order of the rows.

import { clockParts, timeToMs, timeToNs, zoneLabel } from './time';
import type { Row } from './jsonl';

export interface Column {
  name: string;
  kind: 'time' | 'number' | 'text';
  /** The column identifies a row (`by (…)`) instead of counting something. */
  isKey: boolean;
}

export interface Order {
  column: string;
  descending: boolean;
}

const NUMBER = /^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/;
/** The average of no values: not a number to show, but no reason to treat its column as text either. */
const NO_NUMBER = /^[-+]?(nan|inf(inity)?)$/i;
/** Decimal places of numbers, and of numbers below one. */
const DIGITS = 2;
const DIGITS_SMALL = 3;

/** The columns in the order of the answer. Missing and empty values say nothing about the type of a column. */
export function columnsOf(rows: readonly Row[], keys: ReadonlySet<string>): Column[] {
  const values = new Map<string, string[]>();
  for (const row of rows) {
    for (const [name, value] of Object.entries(row)) {
      const list = values.get(name) ?? [];
      if (value !== '') list.push(value);
      values.set(name, list);
    }
  }
  return [...values].map(([name, list]) => {
    const all = (form: RegExp): boolean => list.length > 0 && list.every((value) => form.test(value));
    const isNumber = list.length > 0 && list.every((value) => NUMBER.test(value) || NO_NUMBER.test(value));
    return { name, kind: all(TIME) ? 'time' : isNumber ? 'number' : 'text', isKey: keys.has(name) };
  });
}

/** A time in the zone of the page, formatted as on the axes; with a fraction only if it has one. */
export function showTime(text: string, utc: boolean): string {
  const ms = timeToMs(text);
  if (Number.isNaN(ms)) return text;
  const { date, time } = clockParts(ms, utc);
  const fraction = /\.(\d+)/.exec(text)?.[1]?.slice(0, 3).padEnd(3, '0') ?? '000';
  return `${date} ${time}${/[1-9]/.test(/\.(\d+)/.exec(text)?.[1] ?? '') ? `.${fraction}` : ''}`;
}

/** The zones that the times of a column are shown in: several if the clocks are set between them. */
export function zonesOf(rows: readonly Row[], name: string, utc: boolean): string {
  const times = rows.map((row) => timeToMs(row[name] ?? '')).filter((ms) => !Number.isNaN(ms));
  return [...new Set(times.map((ms) => zoneLabel(utc, ms)))].join(' and ');
}

/** A number for people: rounded, in groups of three digits. A key such as a status or a port is not changed. */
export function showNumber(text: string, isKey: boolean): string {
  if (isKey || !NUMBER.test(text)) return text;
  const value = Number(text);
  // Numbers that JavaScript cannot represent are shown as received.
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) return text;
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 10 ** -DIGITS_SMALL || size >= 1e15) return String(Number(value.toPrecision(DIGITS_SMALL)));
  const digits = size < 1 ? { maximumSignificantDigits: DIGITS_SMALL } : { maximumFractionDigits: DIGITS };
  return value.toLocaleString('en-GB', digits);
}

export function showCell(column: Column, value: string | undefined, utc: boolean): string {
  if (value === undefined) return '';
  if (column.kind === 'time') return showTime(value, utc);
  if (column.kind === 'number' && NO_NUMBER.test(value)) return '–';
  return column.kind === 'number' ? showNumber(value, column.isKey) : value;
}

const comparable = (value = '', kind: Column['kind']): string => (kind === 'number' && NO_NUMBER.test(value) ? '' : value);

/**
 * The order of a table whose query sets none: by time if there is a time column, else by the first count, biggest
 * first. Null keeps the order of the answer.
 */
export function defaultOrder(columns: readonly Column[]): Order | null {
  const time = columns.find((column) => column.kind === 'time');
  if (time) return { column: time.name, descending: false };
  if (!columns.some((column) => column.isKey)) return null;
  const count = columns.find((column) => column.kind === 'number' && !column.isKey);
  return count ? { column: count.name, descending: true } : null;
}

/** Sorts rows; those without a value in the column are always last, and equal ones keep their order. */
export function sorted(rows: readonly Row[], column: Column, descending: boolean): Row[] {
  const { name, kind } = column;
  const text = new Intl.Collator('en', { numeric: true });
  const compare = (a: string, b: string): number => {
    if (kind === 'number') return Number(a) - Number(b);
    if (kind === 'time') {
      const [left, right] = [timeToNs(a) ?? 0n, timeToNs(b) ?? 0n];
      return left < right ? -1 : left > right ? 1 : 0;
    }
    return text.compare(a, b);
  };
  return [...rows].sort((a, b) => {
    const [left, right] = [comparable(a[name], kind), comparable(b[name], kind)];
    if (left === '' || right === '') return Number(left === '') - Number(right === '');
    return descending ? compare(right, left) : compare(left, right);
  });
}
