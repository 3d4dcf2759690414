// The lines around one, among those with the same value of a field: of a trace, a host, a user.

import type { CallOptions } from '../api/call';
import { queryLines } from '../api/queries';
import type { Row } from '../base/jsonl';
import { isFilter } from '../query/logsql';
import { timeToMs, timeToNs } from '../base/time';

/** How far around the line is looked: what shares an identifier lies close together. */
export const REACH_MS = 6 * 3_600_000;

/** Lines around one, oldest first, with the line itself among them. */
export interface Around {
  rows: Row[];
  /** No further line is in front of the first one. */
  isFirst: boolean;
  /** No further line is behind the last one. */
  isLast: boolean;
}

/** The lines around one of the same stream, of which so many were asked for on both sides. */
export function aroundIn(rows: Row[], before: number, after: number): Around {
  const at = rows.findIndex((row) => row['_is_target'] === 'true');
  return { rows, isFirst: at < before, isLast: rows.length - 1 - at < after };
}

export async function linesAround(row: Row, field: string, before: number, after: number, options: CallOptions): Promise<Around> {
  const timeNs = timeToNs(row['_time'] ?? '');
  if (timeNs === null) return { rows: [row], isFirst: true, isLast: true };
  const timeMs = timeToMs(row['_time'] ?? '');
  const query = isFilter(field, row[field] ?? '');
  const span = { startMs: Math.floor(timeMs) - REACH_MS, endMs: Math.ceil(timeMs) + REACH_MS };
  const earlier: Row[] = [];
  const later: Row[] = [];
  await Promise.all([
    queryLines({ query, span, limit: before + 1, endNs: timeNs + 1n }, (rows) => earlier.push(...rows), options),
    queryLines({ query, span, limit: after, startNs: timeNs + 1n, oldestFirst: true }, (rows) => later.push(...rows), options),
  ]);
  // Where the line stands among them says nothing: others of the same time may stand behind it.
  const ends = { isFirst: earlier.length <= before, isLast: later.length < after };
  earlier.reverse();
  // If very many lines have the same time, the answer may lack the line itself.
  if (!earlier.some((one) => one['_line_id'] === row['_line_id'])) earlier.push(row);
  const known = new Set(earlier.map((one) => one['_line_id']));
  const all = [...earlier, ...later.filter((one) => one['_line_id'] === undefined || !known.has(one['_line_id']))];
  return { ...ends, rows: all.map((one) => (one['_line_id'] === row['_line_id'] ? { ...one, _is_target: 'true' } : one)) };
}

/** The fields whose value other lines may share, with the host and identifiers first. */
export function sharedFields(row: Row): string[] {
  const place = (field: string): number => (/^(hostname|host)$/.test(field) ? 0 : /(trace|request|session|span|correlation)|[._-]id$|^id$/i.test(field) ? 1 : 2);
  return Object.entries(row)
    .filter(([field, value]) => !field.startsWith('_') && value !== '' && value.length <= 200)
    .map(([field]) => field)
    .sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
}
