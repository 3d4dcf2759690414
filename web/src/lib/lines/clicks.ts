// Entries of the queue by the click that made them: one search asks for lines, a histogram, the
// fields and their numbers, which are several queries of one client over the same filter within
// seconds. Pure.

import type { QueueEntry } from '../api/queue';
import { timeToMs } from '../base/time';
import { filterOf, withoutChoice, chosenValues } from '../query/logsql';

/** A query and those that went with it. */
export interface Click {
  /** The query that was asked for: the one for lines, if there is one. */
  entry: QueueEntry;
  /** The others, oldest first. */
  others: QueueEntry[];
}

/** What a search asks for besides its lines. */
const SIDE_KINDS = new Set(['hits', 'facets', 'field_names', 'field_values', 'streams']);
/** Queries of a click begin within this time of its first one. */
const WITHIN_MS = 30_000;

/**
 * The user, who stands before the address, or the address without its port: each connection has
 * another one.
 */
export function whoOf({ client }: Pick<QueueEntry, 'client'>): string {
  return /^(\S+) /.exec(client)?.[1] ?? client.replace(/:\d+$/, '');
}

/**
 * Queries of the page that count what stands beside the lines: the numbers of fields, and series
 * that stand out.
 */
const SIDE_QUERIES = / \| stats (min\(.*\) min0, median\(|by \(_time:\w+(, [^()]+)?\) \w+\([^()]*\) n( \| anomalies |$))/;

/** Whether an entry counts what stands beside the lines. */
function isSide({ kind, query }: QueueEntry): boolean {
  return SIDE_KINDS.has(kind) || SIDE_QUERIES.test(query);
}

/**
 * Filters that an entry beside lines of this query may have: its own, or without the choice of one
 * field.
 */
function filtersOf(query: string): Set<string> {
  const filter = filterOf(query);
  return new Set([filter, ...[...chosenValues(filter).keys()].map((field) => filterOf(withoutChoice(filter, field)))]);
}

const byTime = (a: QueueEntry, b: QueueEntry): number => timeToMs(a.started) - timeToMs(b.started);

/**
 * Entries by click, in the order of the entries. Background queries and tails are clicks of their
 * own.
 */
export function clicksOf(entries: readonly QueueEntry[]): Click[] {
  const main = entries.filter((entry) => !isSide(entry)).map((entry) => ({ entry, others: [] as QueueEntry[], ms: timeToMs(entry.started), filters: filtersOf(entry.query) }));
  const left: QueueEntry[] = [];
  for (const side of entries.filter(isSide).sort(byTime)) {
    const ms = timeToMs(side.started);
    const fits = main.filter(({ entry, ms: of, filters }) => whoOf(entry) === whoOf(side) && Math.abs(ms - of) <= WITHIN_MS && filters.has(filterOf(side.query)));
    // A refresh asks the same again: the nearest one it is.
    const [nearest] = fits.sort((a, b) => Math.abs(ms - a.ms) - Math.abs(ms - b.ms));
    if (nearest) nearest.others.push(side);
    else left.push(side);
  }
  // A live tail counts without asking for lines: its histogram stands for the others.
  for (const side of left) {
    const ms = timeToMs(side.started);
    const same = main.find(({ entry, ms: of }) => isSide(entry) && whoOf(entry) === whoOf(side) && Math.abs(ms - of) <= WITHIN_MS && filterOf(entry.query) === filterOf(side.query));
    if (same) same.others.push(side);
    else main.push({ entry: side, others: [], ms, filters: new Set() });
  }
  const places = new Map(entries.map((entry, place) => [entry.id, place]));
  const placeOf = ({ entry }: Click): number => places.get(entry.id) as number;
  return main.map(({ entry, others }) => ({ entry, others })).sort((a, b) => placeOf(a) - placeOf(b));
}
