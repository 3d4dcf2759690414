// What has arrived since a time, by host and type, and which of it is new here.

import type { Row } from '../base/jsonl';
import { isFilter } from '../query/logsql';
import { TYPE_FIELD } from './rows';

const HOST = 'hostname';

export interface Arrival {
  host: string;
  type: string;
  lines: number;
  /** Nothing of this host and type was there before. */
  isNew: boolean;
  filter: string;
}

const BY = `stats by (${TYPE_FIELD}, ${HOST}) count() lines`;

/** The lines of a range by host and type. */
export const ARRIVALS_QUERY = `* | ${BY}`;

const keyOf = (row: Row): string => `${row[TYPE_FIELD] ?? ''}\n${row[HOST] ?? ''}`;

/** What came, and what was there before, each by `ARRIVALS_QUERY`; what is new comes first, then what has the most lines. */
export function arrivalsOf(rows: readonly Row[], known: readonly Row[]): Arrival[] {
  const before = new Set(known.map(keyOf));
  return rows
    .map((row) => {
      const [host, type] = [row[HOST] ?? '', row[TYPE_FIELD] ?? ''];
      return { host, type, lines: Number(row['lines'] ?? 0), isNew: !before.has(keyOf(row)), filter: `${isFilter(TYPE_FIELD, type)} ${isFilter(HOST, host)}` };
    })
    .filter(({ lines, type }) => lines > 0 && type !== 'summary' && type !== 'alert')
    .sort((a, b) => Number(b.isNew) - Number(a.isNew) || b.lines - a.lines);
}
