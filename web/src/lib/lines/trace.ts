// Lines of one trace, request or session, on lanes by service.

import type { Row } from '../base/jsonl';
import { timeToNs } from '../base/time';
import { appOf, hostOf, TYPE_FIELD } from './rows';

/** Names of fields that identify what lines of several services belong to; the widest first. */
const NAMES = [/(^|[._-])trace[._-]?id$/i, /(^|[._-])(correlation|transaction)[._-]?id$/i, /(^|[._-])(request|req)[._-]?id$/i, /(^|[._-])session[._-]?id$/i, /^(trace|request|session)$/i];
/** What stands in a field that has no value. */
const EMPTY = /^[-0]*$/;
/** Lanes that are shown; the lines of further services share the last one. */
export const LANES_MAX = 12;
/** A pause between two lines is told from this share of the whole time on. */
const GAP_SHARE = 0.1;

/** The fields of a line that identify a trace and the like, the best first. */
export function traceFields(row: Row): string[] {
  const place = (name: string): number => NAMES.findIndex((form) => form.test(name));
  return Object.keys(row)
    .filter((name) => place(name) >= 0 && !EMPTY.test(row[name] ?? ''))
    .sort((a, b) => place(a) - place(b));
}

/** The field and the value in the address. */
export function traceOf(text: string): { field: string; value: string } | null {
  const at = text.indexOf('=');
  return at <= 0 || at === text.length - 1 ? null : { field: text.slice(0, at), value: text.slice(at + 1) };
}

export interface TraceLine {
  row: Row;
  lane: number;
  /** From 0, the first line, to 1, the last one. */
  at: number;
  /** Since the first line. */
  sinceNs: bigint;
  /** Since the line before, if that is long. */
  gapNs: bigint | null;
}

export interface Trace {
  lanes: string[];
  lines: TraceLine[];
  tookNs: bigint;
}

function laneOf(row: Row): string {
  return row['service.name'] ?? (appOf(row) || hostOf(row) || row[TYPE_FIELD] || '–');
}

/** Rows in the order of time. */
export function traceLines(rows: readonly Row[]): Trace {
  const timed = rows
    .map((row) => ({ row, ns: timeToNs(row['_time'] ?? '') }))
    .filter((one): one is { row: Row; ns: bigint } => one.ns !== null)
    .sort((a, b) => (a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0));
  const first = timed[0]?.ns ?? 0n;
  const tookNs = (timed[timed.length - 1]?.ns ?? first) - first;
  const lanes: string[] = [];
  let before = first;
  const lines = timed.map(({ row, ns }) => {
    const name = laneOf(row);
    let lane = lanes.indexOf(name);
    if (lane < 0 && lanes.length < LANES_MAX) lane = lanes.push(name) - 1;
    if (lane < 0) {
      lane = LANES_MAX - 1;
      lanes[lane] = 'others';
    }
    const gap = ns - before;
    before = ns;
    return {
      row,
      lane,
      at: tookNs === 0n ? 0 : Number(ns - first) / Number(tookNs),
      sinceNs: ns - first,
      gapNs: tookNs > 0n && Number(gap) >= GAP_SHARE * Number(tookNs) ? gap : null,
    };
  });
  return { lanes, lines, tookNs };
}

/** `1.5 s`, `230 ms`, `40 µs`. */
export function formatTook(ns: bigint): string {
  const value = Number(ns);
  const [size, unit] = value >= 60e9 ? [60e9, 'min'] : value >= 1e9 ? [1e9, 's'] : value >= 1e6 ? [1e6, 'ms'] : [1e3, 'µs'];
  return `${Number((value / size).toPrecision(3))} ${unit}`;
}
