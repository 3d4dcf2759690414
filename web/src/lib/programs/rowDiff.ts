// The rows of an interval before and after a rerun: which are the same, changed, new or gone.

import { fieldNames, keyFields, textOf } from './programRows';
import type { ProgramRow } from '../api/programs';
import { timeToMs } from '../base/time';

export type DiffKind = 'same' | 'changed' | 'added' | 'removed';

export interface RowPair {
  time: string;
  kind: DiffKind;
  before: ProgramRow | null;
  after: ProgramRow | null;
  /** The fields whose values differ. */
  changed: ReadonlySet<string>;
}

/** Rows of one bucket belong together if the fields that name what was counted are the same. */
function keyOf(row: ProgramRow, names: readonly string[]): string {
  return JSON.stringify([timeToMs(row.time), names.map((name) => textOf(row.fields[name]))]);
}

function differing(before: ProgramRow, after: ProgramRow): Set<string> {
  const names = new Set([...Object.keys(before.fields), ...Object.keys(after.fields)]);
  return new Set([...names].filter((name) => textOf(before.fields[name]) !== textOf(after.fields[name])));
}

/** Pairs the rows of two answers, in the order of time. Several rows with the same names are paired in their order. */
export function diffRows(before: readonly ProgramRow[], after: readonly ProgramRow[], keys: ReadonlySet<string> = new Set()): RowPair[] {
  const named = new Set([...keyFields(before, keys), ...keyFields(after, keys)]);
  const names = fieldNames([...before, ...after].map((row) => row.fields), named).texts.sort();
  const waiting = new Map<string, ProgramRow[]>();
  for (const row of before) {
    const key = keyOf(row, names);
    waiting.set(key, [...(waiting.get(key) ?? []), row]);
  }
  const pairs: RowPair[] = after.map((row) => {
    const old = waiting.get(keyOf(row, names))?.shift() ?? null;
    if (old === null) return { time: row.time, kind: 'added', before: null, after: row, changed: new Set() };
    const changed = differing(old, row);
    return { time: row.time, kind: changed.size > 0 ? 'changed' : 'same', before: old, after: row, changed };
  });
  for (const list of waiting.values()) {
    for (const row of list) pairs.push({ time: row.time, kind: 'removed', before: row, after: null, changed: new Set() });
  }
  const place = (pair: RowPair): number => (pair.after ?? pair.before)?.row ?? 0;
  return pairs.sort((a, b) => timeToMs(a.time) - timeToMs(b.time) || place(a) - place(b));
}

export function countKinds(pairs: readonly RowPair[]): Record<DiffKind, number> {
  const counts: Record<DiffKind, number> = { same: 0, changed: 0, added: 0, removed: 0 };
  for (const pair of pairs) counts[pair.kind]++;
  return counts;
}
