// The rows of a chart as CSV. Pure.

import type { Row } from '../base/jsonl';

const NUMBER = /^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i;

/**
 * A value as RFC 4180 writes it. Texts of logs are data: one that a spreadsheet would take for a
 * formula gets an apostrophe in front.
 */
function cell(value: string): string {
  const text = /^[=+\-@\t\r]/.test(value) && !NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Rows as CSV, with a line of names; a row that lacks a column has an empty value there. */
export function csvOf(rows: readonly Row[]): string {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return [names, ...rows.map((row) => names.map((name) => row[name] ?? ''))].map((line) => `${line.map(cell).join(',')}\r\n`).join('');
}

/** A title as the name of a file. */
export function fileNameOf(title: string, ending: string): string {
  const base = title.normalize('NFKD').replace(/[^\w.-]+/g, '-').replace(/^[-.]+|-+$/g, '').slice(0, 60).toLowerCase();
  return `${base || 'panel'}.${ending}`;
}
