// Rules at ingest, tables of lookups and macros of queries as typed calls. Nothing here keeps state.

import { call, json, type CallOptions } from './call';

/** What a rule did with lines since the start. */
export interface RuleCounts {
  name: string;
  selected: number;
  dropped: number;
  masked: number;
  changed: number;
  failed: number;
  took_ms: number;
}

/** A line as it would be stored. */
export interface TriedLine {
  line: string;
  fields: Record<string, string>;
}

/** What rules would do with a line. */
export interface Trial {
  /** The rules that select it. */
  rules: string[];
  before: TriedLine;
  /** Null: it would not be kept. */
  after: TriedLine | null;
}

export const MATCHES = ['equal', 'cidr', 'prefix', 'wildcard', 'mmdb'] as const;
export type Match = (typeof MATCHES)[number];

export interface LookupTable {
  name: string;
  file: string;
  source: 'configuration' | 'uploaded';
  match: Match;
  keys: string[];
  fields: string[];
  /** When its version was written; null if the system does not tell. */
  version: string | null;
  /** Null for a database, which has networks. */
  rows: number | null;
  bytes: number;
  /** Why the newest version is not used. */
  error: string | null;
}

export interface Macro {
  name: string;
  parameters: string[];
  text: string;
  description: string;
  form: 'filter' | 'pipes' | 'query';
  source: 'configuration' | 'saved';
}

export async function ruleCounts(options: CallOptions = {}): Promise<RuleCounts[]> {
  return (await json<{ rules: RuleCounts[] }>('/api/v1/ingest/rules', {}, options)).rules;
}

/** What rules, written as in the configuration, would do with the newest lines of a query. */
export async function tryRules(rules: string, query: string, limit: number, options: CallOptions = {}): Promise<Trial[]> {
  const body = { type: 'application/json', text: JSON.stringify({ rules, query: query.trim() === '' ? '*' : query, limit }) };
  return (await json<{ lines: Trial[] }>('/api/v1/ingest/rules/trial', {}, { ...options, body }, 'POST')).lines;
}

const LOOKUPS = '/api/v1/lookups';
const MACROS = '/api/v1/macros';
const one = (path: string, name: string): string => `${path}/${encodeURIComponent(name)}`;

export async function lookupTables(options: CallOptions = {}): Promise<LookupTable[]> {
  return (await json<{ lookups: LookupTable[] }>(LOOKUPS, {}, options)).lookups;
}

export async function uploadTable(name: string, match: Match, keys: string, file: Blob): Promise<void> {
  await call(one(LOOKUPS, name), { match, keys: keys.trim() === '' ? null : keys }, { body: { type: 'application/octet-stream', text: file } }, 'PUT');
}

export async function deleteTable(name: string): Promise<void> {
  await call(one(LOOKUPS, name), {}, {}, 'DELETE');
}

/** The row of a table whose key is this one value; null if there is none. */
export async function findInTable(name: string, value: string): Promise<Record<string, string> | null> {
  const { found, row } = await json<{ found: boolean; row: Record<string, string> }>(one(LOOKUPS, name), { value });
  return found ? row : null;
}

export async function macros(options: CallOptions = {}): Promise<Macro[]> {
  return (await json<{ macros: Macro[] }>(MACROS, {}, options)).macros;
}

export async function saveMacro(name: string, parameters: string[], text: string, description: string): Promise<void> {
  await call(one(MACROS, name), {}, { body: { type: 'application/json', text: JSON.stringify({ parameters, text, description }) } }, 'PUT');
}

export async function deleteMacro(name: string): Promise<void> {
  await call(one(MACROS, name), {}, {}, 'DELETE');
}

/** The call of a macro as it is written in a query: `@slow(field, limit)`. */
export function callOf({ name, parameters }: Pick<Macro, 'name' | 'parameters'>): string {
  return `@${name}(${parameters.join(', ')})`;
}

/**
 * Why a macro must not be saved under a name: it would replace one of somebody else. `edited` is the macro that the change
 * was begun from, null for a new one. Null if it may be saved, as far as this page can tell.
 */
export function replacesAnother(known: readonly Macro[], name: string, edited: Macro | null): string | null {
  const now = known.find((one) => one.name === name && one.source === 'saved');
  if (now === undefined) return null;
  if (edited?.name !== name) return `There is a macro ${name} already. Choose Edit beside it to change it, or another name.`;
  const same = callOf(now) === callOf(edited) && now.text === edited.text && now.description === edited.description;
  return same ? null : `Somebody else has changed ${name} meanwhile. Choose Edit beside it to see it.`;
}

/** The macros that complete a word which begins with `@`. */
export function macrosFor(known: readonly Macro[], typed: string, kind: 'field' | 'pipe'): Macro[] {
  if (!typed.startsWith('@')) return [];
  return known.filter(({ name, form }) => `@${name}`.startsWith(typed) && (form === 'pipes') === (kind === 'pipe'));
}
