// The columns between the time and the message: which, in which order, how wide. As a text they are `_level,path:140`.

import { splitList, unquote } from '../query/logsqlScan';
import type { Row } from '../base/jsonl';
import { appOf, hostOf } from './rows';

export interface Column {
  /** A field; `_host` and `_app` stand for whatever field names the host and the application. */
  field: string;
  /** Pixels, on a screen that is wide enough. */
  width: number;
}

export const WIDTH_MIN = 44;
export const WIDTH_MAX = 900;
/** More columns leave no room to read; a further one replaces the last. */
export const COLUMNS_MAX = 16;

export const DEFAULT_COLUMNS: readonly Column[] = [
  { field: '_level', width: 74 },
  { field: '_type', width: 74 },
  { field: '_host', width: 92 },
  { field: '_app', width: 92 },
];

const LABELS = new Map([['_level', 'Level'], ['_type', 'Type'], ['_host', 'Host'], ['_app', 'App']]);
/** Fields that the column of the host or of the application shows. */
const STANDS_FOR = new Map([['hostname', '_host'], ['app_name', '_app']]);

export function labelOf(field: string): string {
  return LABELS.get(field) ?? field;
}

/** A column of the page's own, not of a field that a user chose. */
export function isBuiltIn(field: string): boolean {
  return LABELS.has(field);
}

export function columnValue(row: Row, field: string): string {
  if (field === '_host') return hostOf(row);
  if (field === '_app') return appOf(row);
  return row[field] ?? '';
}

/** The field of this line whose value a column shows; null if it has none. */
export function fieldOfColumn(row: Row, field: string): string | null {
  const names = field === '_host' ? ['hostname', 'host'] : field === '_app' ? ['app_name', 'app', 'service'] : [field];
  return names.find((name) => row[name] !== undefined) ?? null;
}

export function formatColumns(columns: readonly Column[]): string {
  return columns
    .map(({ field, width }) => {
      const name = /^[\w.@-]+$/.test(field) ? field : JSON.stringify(field);
      return DEFAULT_COLUMNS.some((one) => one.field === field && one.width === width) ? name : `${name}:${width}`;
    })
    .join(',');
}

/** Broken parts are left out. */
export function parseColumns(text: string): Column[] {
  const columns: Column[] = [];
  for (const part of splitList(text)) {
    const found = /^("(?:[^"\\]|\\.)*"|[^":]+)(?::(\d{1,4}))?$/s.exec(part.trim());
    if (!found) continue;
    const field = (found[1] as string).startsWith('"') ? unquote(found[1] as string) : (found[1] as string);
    const width = found[2] === undefined ? (DEFAULT_COLUMNS.find((one) => one.field === field)?.width ?? 120) : Number(found[2]);
    if (field !== '' && canBeColumn(field) && !columns.some((column) => column.field === field)) columns.push({ field, width: bounded(width) });
  }
  return columns.slice(0, COLUMNS_MAX);
}

/** The time and the message have their places, and the raw line is the message once more. */
export function canBeColumn(field: string): boolean {
  return field !== '_time' && field !== '_msg' && field !== '_line';
}

const bounded = (width: number): number => Math.round(Math.max(WIDTH_MIN, Math.min(WIDTH_MAX, width)));

export function hasColumn(columns: readonly Column[], field: string): boolean {
  return columns.some((column) => column.field === field || column.field === STANDS_FOR.get(field));
}

/** Adds a column beside the message, as wide as its values. */
export function addColumn(columns: readonly Column[], field: string, values: readonly string[] = []): Column[] {
  if (hasColumn(columns, field) || !canBeColumn(field)) return [...columns];
  const chars = Math.min(34, Math.max(field.length + 2, ...values.slice(0, 200).map((value) => value.length)));
  return [...columns.slice(0, COLUMNS_MAX - 1), { field, width: bounded(20 + 7.3 * chars) }];
}

export function removeColumn(columns: readonly Column[], field: string): Column[] {
  return columns.filter((column) => column.field !== field && column.field !== STANDS_FOR.get(field));
}

/** Moves a column to a place among the others, from 0. */
export function moveColumn(columns: readonly Column[], field: string, place: number): Column[] {
  const column = columns.find((one) => one.field === field);
  if (!column) return [...columns];
  const others = columns.filter((one) => one !== column);
  const at = Math.max(0, Math.min(others.length, place));
  return [...others.slice(0, at), column, ...others.slice(at)];
}

export function resizeColumn(columns: readonly Column[], field: string, width: number): Column[] {
  return columns.map((column) => (column.field === field ? { field, width: bounded(width) } : column));
}

/** The widths on the screen: smaller in proportion where the columns would take the message its room. */
export function fitWidths(columns: readonly Column[], room: number): number[] {
  const wanted = columns.reduce((sum, { width }) => sum + width, 0);
  const factor = wanted === 0 ? 1 : Math.min(1, Math.max(0.2, room / wanted));
  return columns.map(({ width }) => Math.max(Math.min(width, WIDTH_MIN), Math.floor(width * factor)));
}
