// The queue of queries and the rows of background queries, as typed calls.

import { timeToMs, type Span } from '../base/time';
import { ApiError, call, json, spanParams, type CallOptions } from './call';

export interface QueueEntry {
  id: string;
  kind: string;
  query: string;
  /** `out_of_reach`: a background query of a node of the cluster that does not answer. */
  state: 'waiting' | 'running' | 'paused' | 'done' | 'cancelled' | 'failed' | 'interrupted' | 'out_of_reach';
  /** In a cluster: the name of the node that has the query. */
  node?: string;
  /** Position in the queue while it waits, from 1. */
  position: number | null;
  started: string;
  wait_ms: number;
  run_ms: number;
  /** An estimate. */
  left_ms: number | null;
  progress: number;
  blocks_done: number;
  blocks_planned: number;
  bytes_scanned: number;
  bytes_planned: number;
  lines_scanned: number;
  rows: number;
  memory_bytes: number;
  error: string | null;
  client: string;
  /** The time range of the query; null at an unbounded end, missing for an entry without a range. */
  start?: string | null;
  end?: string | null;
  /** Only for background queries. */
  results?: KeptResults;
}

export interface KeptResults {
  rows: number;
  bytes: number;
  format: 'json' | 'raw' | 'csv';
  start: string | null;
  end: string | null;
  limit: number | null;
  /** Null while it waits, runs or is paused. */
  expires: string | null;
  /** Where it resumes after a restart. */
  resumes: 'behind the last row' | 'from the start';
}

/**
 * The range that an entry covers, or null for all time. An unbounded start becomes 1970, an unbounded end the time when
 * the query was submitted.
 */
export function spanOf(entry: QueueEntry): Span | null {
  const start = entry.results?.start ?? entry.start ?? null;
  const end = entry.results?.end ?? entry.end ?? null;
  if (start === null && end === null) return null;
  return {
    startMs: start === null ? 0 : Math.floor(timeToMs(start)),
    endMs: Math.ceil(timeToMs(end ?? entry.started)),
  };
}

export interface Queue {
  queries: QueueEntry[];
  limits: {
    concurrent: number;
    waiting: number;
    wait_s: number;
    run_s: number;
    memory_bytes: number;
    rows: number;
    background_concurrent: number;
    background_waiting: number;
    background_run_s: number;
    result_bytes: number;
    result_bytes_total: number;
    results_keep_s: number;
  };
  /** Bytes of all stored rows; in a cluster, of those of the node that answers. */
  result_bytes: number;
  /** In a cluster: the nodes whose queries are not listed, and why. */
  out_of_reach?: { node: string; error: string }[];
}

export function queue(options: CallOptions = {}): Promise<Queue> {
  return json('/api/v1/queries', {}, options);
}

/** Cancelling a query that has ended meanwhile is not an error. */
export async function cancelQuery(id: string): Promise<void> {
  try {
    await call(`/api/v1/queries/${encodeURIComponent(id)}`, {}, {}, 'DELETE');
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404) throw error;
  }
}

export async function pauseQuery(id: string): Promise<void> {
  await call(`/api/v1/queries/${encodeURIComponent(id)}/pause`, {}, {}, 'POST');
}

export async function resumeQuery(id: string): Promise<void> {
  await call(`/api/v1/queries/${encodeURIComponent(id)}/resume`, {}, {}, 'POST');
}

/** Submits a background query; returns the id of the queue's entry. */
export async function submitQuery(query: string, span: Span): Promise<string> {
  const answer = await json<{ id: string }>('/api/v1/queries', { query, ...spanParams(span), format: 'json' }, {}, 'POST');
  return answer.id;
}

export interface ResultsPage {
  text: string;
  rows: number;
  /** Resumes behind these rows. */
  cursor: string;
  /** Whether further rows exist already. */
  more: boolean;
  state: QueueEntry['state'];
}

/** Rows of a background query behind a cursor; the first rows without one. */
export async function resultsPage(id: string, cursor: string | null, limit: number, options: CallOptions): Promise<ResultsPage> {
  const response = await call(`/api/v1/queries/${encodeURIComponent(id)}/results`, { cursor, limit }, options);
  const head = (name: string): string => response.headers.get(name) ?? '';
  return {
    text: await response.text(),
    rows: Number(head('X-Loginson-Rows')),
    cursor: head('X-Loginson-Cursor'),
    more: head('X-Loginson-More') === 'true',
    state: head('X-Loginson-State') as QueueEntry['state'],
  };
}
