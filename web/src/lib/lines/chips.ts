// Which fields of a line are shown beside its message, and in which order.
//
// A field that has the same value in all lines of its application and type says nothing about one of them: it is in the
// detail only. What went wrong, and how long it took, comes first; then the other fields in the order in which programs
// write them; then where it ran, which is often the same for many lines; identifiers and long texts come last.

import type { Row } from '../base/jsonl';
import type { Placed } from './pieces';
import { appOf, hostOf, TYPE_FIELD } from './rows';

export interface Chip {
  name: string;
  value: string;
}

/** The names of the fields to show, in order, by kind of line. */
export type ChipPlan = ReadonlyMap<string, readonly string[]>;

/** The plan is made from this many lines; further lines rarely change it. */
const PLAN_ROWS_MAX = 1000;
/** Chips of a row; the detail has all fields. */
export const CHIPS_MAX = 14;
/** Shorter values are found in a message by chance. */
const PLACED_CHARS_MIN = 3;
const LONG_CHARS = 48;

/** The level has its column. */
const LEVELS = new Set(['level', 'severity', 'lvl']);
/** What the header of syslog says; known by the fields `priority` and `facility`. */
const HEADER = new Set(['priority', 'facility', 'facility_keyword', 'format', 'proc_id', 'msg_id', 'sequence', 'version']);
const MESSAGES = new Set(['message', 'msg']);
/** Names of fields that say how something ended, or how long it took; also as the last part of a name. */
export const OUTCOME = /(^|[._-])(err(or)?|exc(eption)?|reason|cause|fault|failure|status([._-]?code)?|code|result|outcome|latency|duration|took|elapsed|retries)([._-]?(ms|us|ns|s|seconds|msg|message|type|kind|class|name))?$/i;
/** Names of fields that say where something ran. */
const PLACE = /(^|[._-])(pod|node|region|zone|cluster|container|namespace|instance|image|version|env(ironment)?|deployment|dc|datacenter)([._-]?(id|name|ip|uid))?$|^(kubernetes|k8s|container|docker|cloud|host)[._]/i;

function kindOf(row: Row): string {
  return `${row[TYPE_FIELD] ?? ''}\n${appOf(row)}`;
}

function isCandidate(row: Row, name: string, value: string): boolean {
  if (value === '' || name.startsWith('_') || LEVELS.has(name)) return false;
  if (HEADER.has(name) && (row['priority'] !== undefined || row['facility'] !== undefined)) return false;
  if (MESSAGES.has(name) && value === row['_msg']) return false;
  return true;
}

interface Seen {
  first: string;
  rows: number;
  isConstant: boolean;
  chars: number;
  values: Set<string>;
}

export function planChips(rows: readonly Row[]): ChipPlan {
  const kinds = new Map<string, { rows: number; fields: Map<string, Seen> }>();
  for (const row of rows.slice(0, PLAN_ROWS_MAX)) {
    const kind = kinds.get(kindOf(row)) ?? { rows: 0, fields: new Map<string, Seen>() };
    kinds.set(kindOf(row), kind);
    kind.rows++;
    for (const [name, value] of Object.entries(row)) {
      if (!isCandidate(row, name, value)) continue;
      const seen = kind.fields.get(name) ?? { first: value, rows: 0, isConstant: true, chars: 0, values: new Set() };
      kind.fields.set(name, seen);
      seen.rows++;
      seen.isConstant &&= value === seen.first;
      seen.chars += value.length;
      seen.values.add(value);
    }
  }
  const plan = new Map<string, string[]>();
  for (const [key, kind] of kinds) {
    const fields = [...kind.fields].filter(([, seen]) => kind.rows === 1 || !seen.isConstant || seen.rows < kind.rows);
    const place = ([name, seen]: [string, Seen]): number => {
      if (OUTCOME.test(name)) return 0;
      if (isIdentifier(name, seen) || seen.chars / seen.rows > LONG_CHARS) return 3;
      return PLACE.test(name) ? 2 : 1;
    };
    plan.set(key, fields.sort((a, b) => place(a) - place(b)).map(([name]) => name));
  }
  return plan;
}

/** Almost every line has a different value, and the values are not measurements. */
function isIdentifier(name: string, seen: Seen): boolean {
  if (seen.rows < 5 || seen.values.size < 0.9 * seen.rows) return false;
  return /(^|[._-])(id|uuid|guid|trace|span|request|session)s?$/i.test(name) || [...seen.values].some((value) => !/^-?[\d.]+(e[+-]?\d+)?[a-zµ]{0,2}$/i.test(value));
}

/**
 * The chips of a line. `shown` are fields that have a column, `placed` those whose value is in the
 * message, `pinned` those that come first, whatever their values.
 */
export function chipsOf(row: Row, plan: ChipPlan, shown: ReadonlySet<string>, placed: readonly Placed[], pinned: readonly string[] = []): Chip[] {
  const first = pinned.filter((name) => (row[name] ?? '') !== '' && !shown.has(name)).map((name) => ({ name, value: row[name] as string }));
  const names = plan.get(kindOf(row)) ?? [];
  const inMessage = new Set(placed.map(({ field }) => field));
  // A line without a message shows its fields in place of it, also those that are the same everywhere.
  const list = (row['_msg'] ?? '') === '' ? Object.keys(row) : names;
  const [host, app] = [hostOf(row), appOf(row)];
  const others = list
    .filter((name) => !pinned.includes(name) && !shown.has(name) && !inMessage.has(name) && isCandidate(row, name, row[name] ?? ''))
    .map((name) => ({ name, value: row[name] as string }))
    .filter(({ name, value }) => !(isHost(name) && value === host && shown.has('_host')) && !(isApp(name) && value === app && shown.has('_app')));
  return [...first, ...others].slice(0, CHIPS_MAX);
}

const isHost = (name: string): boolean => name === 'hostname' || name === 'host';
const isApp = (name: string): boolean => name === 'app_name' || name === 'app' || name === 'service';

/** Where the values of fields stand in a message: they can be clicked there, and need no chip. */
export function placedIn(row: Row, text: string): Placed[] {
  const placed: Placed[] = [];
  if (text === '') return placed;
  for (const [name, value] of Object.entries(row)) {
    if (!isCandidate(row, name, value)) continue;
    const at = placeOf(text, name, value, placed);
    if (at >= 0) placed.push({ field: name, from: at, to: at + value.length });
  }
  return placed;
}

function placeOf(text: string, name: string, value: string, placed: readonly Placed[]): number {
  for (const before of [`${name}=`, `${name}="`, `${name}: `, `"${name}":"`, `"${name}":`]) {
    const at = text.indexOf(before + value);
    if (at >= 0 && isEnd(text, at + before.length + value.length)) return at + before.length;
  }
  if (value.length < PLACED_CHARS_MIN) return -1;
  for (let at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + 1)) {
    const to = at + value.length;
    const isFree = placed.every((other) => to <= other.from || at >= other.to);
    if (isFree && (at === 0 || isEnd(text, at - 1)) && isEnd(text, to)) return at;
  }
  return -1;
}

/** Whether a value can end before this place, or begin behind it. */
function isEnd(text: string, at: number): boolean {
  return at >= text.length || !/[\p{L}\p{N}_]/u.test(text[at] as string);
}
