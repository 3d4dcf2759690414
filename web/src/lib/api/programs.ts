// Programs and sinks as typed calls. Nothing here keeps state.

import { ApiError, call, json, spanParams, type CallOptions } from './call';
import type { Span } from '../base/time';

export type Language = 'awk' | 'logsql';

export type ProgramState = 'invalid' | 'disabled' | 'waiting' | 'running' | 'behind' | 'failing';

/** A line of output that is no row. */
export interface RejectedLine {
  /** Line of the output, from 1. */
  line: number;
  text: string;
  reason: string;
}

export interface Program {
  name: string;
  language: Language;
  /** It stands in the configuration of the server, which the API does not change. */
  configured?: boolean;
  type: string | null;
  filter: string | null;
  /** Null if its text is no program. */
  bucket_s?: number | null;
  /** The columns that the program reads; null for raw lines. */
  fields: string[] | null;
  enabled: boolean;
  state: ProgramState;
  /** Why it is invalid. */
  problem: { line: number; message: string } | null;
  warnings: string[];
  /** Age of the oldest bucket that is due and has not been computed. */
  lag_s: number;
  buckets_waiting: number;
  lines_total: number;
  rows_total: number;
  buckets_total: number;
  failures_total: number;
  rejected_total: number;
  last_run: string | null;
  last_error: { time: string; bucket: string | null; message: string; stderr: string } | null;
  last_rejected: RejectedLine[];
  sandbox: { what: string; part: 'full' | 'partial' | 'none'; note: string }[];
}

export interface ProgramList {
  /** The AWK that runs programs; null if there is none. */
  interpreter: { kind: string; path: string } | null;
  /** The remedy if there is none. */
  interpreter_error?: string | null;
  /** Null if the API cannot save programs. */
  folder: string | null;
  programs: Program[];
}

export type FieldValue = string | number | boolean | null;
export type Fields = Record<string, FieldValue>;

/** A stored row. */
export interface ProgramRow {
  /** The start of its bucket. */
  time: string;
  revision: number;
  /** Its place among the rows of the bucket. */
  row: number;
  fields: Fields;
}

export interface ProgramRows {
  bucket_s?: number | null;
  rows: ProgramRow[];
  /** Rows behind the limit are missing. */
  is_cut: boolean;
}

/** What an interpreter says; lines are counted from 1. */
export interface Fault {
  program_line: number | null;
  input_line: number | null;
  message: string;
}

/** What a program makes of sample lines. */
export interface TestReport {
  rows: Fields[];
  rejected: RejectedLine[];
  rejected_total: number;
  error: string | null;
  faults: Fault[];
  warnings: string[];
  lines: number;
  lines_matching: number;
  cpu_ms: number;
  /** Null if no AWK ran it. */
  interpreter: string | null;
}

export interface DryRun {
  buckets: number;
  rows_before: ProgramRow[];
  rows_after: ProgramRow[];
  is_cut: boolean;
}

export interface PastRun {
  id: string;
  start: string;
  end: string;
  at: string;
}

export interface Sink {
  name: string;
  kind: string;
  /** What it delivers. */
  of: string;
  state: 'idle' | 'delivering' | 'retrying' | 'blocked' | 'failing' | 'stopped';
  lag_s: number;
  /** Read, and not delivered. */
  waiting_documents: number;
  delivered_total: number;
  rejected_total: number;
  retries_total: number;
  last_error: string | null;
  last_error_time: string | null;
}

/** A node of a cluster that does not tell, and why. */
export interface OutOfReach {
  node: string;
  error: string;
}

export interface RejectedDocument {
  rejected_at: string;
  reason: string;
  id: string;
  time: string | null;
  fields: Fields;
  /** Where it is kept, in a cluster. */
  node?: string;
}

export interface Rejected {
  documents: RejectedDocument[];
  /** All that are kept, not only those that are listed. */
  documents_total: number;
  out_of_reach?: OutOfReach[];
}

/** What became of the documents. */
export interface RejectedDone {
  documents: number;
  out_of_reach?: OutOfReach[];
  /** Another call is needed. */
  more?: boolean;
}

/** Rows of one answer; further ones are left out, and the answer says so. */
export const ROWS_MAX = 10_000;

const PROGRAMS = '/api/v1/programs';
const at = (name: string, action = ''): string => `${PROGRAMS}/${encodeURIComponent(name)}${action}`;
const plain = (text: string): { type: string; text: string } => ({ type: 'text/plain; charset=utf-8', text });

export function programs(options: CallOptions = {}): Promise<ProgramList> {
  return json(PROGRAMS, {}, options);
}

export async function sinks(options: CallOptions = {}): Promise<Sink[]> {
  return (await json<{ sinks: Sink[] }>('/api/v1/sinks', {}, options)).sinks;
}

const rejectedAt = (sink: string, action = ''): string => `/api/v1/sinks/${encodeURIComponent(sink)}/rejected${action}`;

/** The newest documents that the destination rejected. */
export function rejected(sink: string, limit: number, options: CallOptions = {}): Promise<Rejected> {
  return json(rejectedAt(sink), { limit }, options);
}

/** Has all of them delivered again. */
export function retryRejected(sink: string): Promise<RejectedDone> {
  return json(rejectedAt(sink, '/retry'), {}, {}, 'POST');
}

/** Removes all of them. */
export function discardRejected(sink: string): Promise<RejectedDone> {
  return json(rejectedAt(sink), {}, {}, 'DELETE');
}

export function programWithText(name: string, options: CallOptions = {}): Promise<Program & { text: string }> {
  return json(at(name), {}, options);
}

/** The text of a program as it is now; null if there is none any more. */
export async function keptProgram(name: string): Promise<string | null> {
  try {
    return (await programWithText(name)).text;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

export async function saveProgram(name: string, language: Language, text: string): Promise<void> {
  await call(at(name), { language }, { body: plain(text) }, 'POST');
}

/** The rows of the program stay. */
export async function deleteProgram(name: string): Promise<void> {
  await call(at(name), {}, {}, 'DELETE');
}

export async function switchProgram(name: string, enabled: boolean): Promise<void> {
  await call(at(name, enabled ? '/enable' : '/disable'), {}, {}, 'POST');
}

/** Reads the folder again. */
export function reloadPrograms(): Promise<{ programs: number; invalid: number }> {
  return json(`${PROGRAMS}/reload`, {}, {}, 'POST');
}

/** Runs a program on these lines as on one bucket; the server stores nothing. */
export function testProgram(language: Language, text: string, lines: readonly string[], options: CallOptions): Promise<TestReport> {
  const body = { type: 'application/json', text: JSON.stringify({ text, language, lines }) };
  return json(`${PROGRAMS}/test`, {}, { ...options, body }, 'POST');
}

/** The latest revision of each row, oldest first. */
export function rowsOf(name: string, span: Span, options: CallOptions): Promise<ProgramRows> {
  return json(at(name, '/rows'), { ...spanParams(span), limit: ROWS_MAX }, options);
}

/** A text that was not saved. */
export interface OtherText {
  language: Language;
  text: string;
}

/** Computes a past interval again, with the saved text or the given one; returns the id of the queue's entry. */
export async function rerunProgram(name: string, span: Span, other: OtherText | null): Promise<string> {
  const params = { ...spanParams(span), language: other?.language };
  const answer = await json<{ id: string }>(at(name, '/runs'), params, other === null ? {} : { body: plain(other.text) }, 'POST');
  return answer.id;
}

/** The rows of a past interval before and after; the server stores nothing. */
export function dryRun(name: string, span: Span, other: OtherText | null, options: CallOptions): Promise<DryRun> {
  const params = { ...spanParams(span), dry_run: 1, language: other?.language };
  return json(at(name, '/runs'), params, { ...options, ...(other === null ? {} : { body: plain(other.text) }) }, 'POST');
}

export async function pastRuns(name: string, options: CallOptions): Promise<PastRun[]> {
  return (await json<{ runs: PastRun[] }>(at(name, '/runs'), {}, options)).runs;
}
