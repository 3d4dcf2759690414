// The HTTP API as typed calls. Nothing here keeps state; docs/api.md describes the API.

import { noteOf, readJsonLines, type Row } from './jsonl';
import { stepParam } from './steps';
import { timeToMs, type Span } from './time';

export type { Row } from './jsonl';

/** An error response. `position` (bytes) and `expected` are set for a wrong query, `line` (from 1) for a wrong program. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly position: number | null = null,
    readonly expected: readonly string[] = [],
    readonly query: string | null = null,
    readonly line: number | null = null,
  ) {
    super(message);
  }
}

export interface CallOptions {
  signal?: AbortSignal;
  /** Called with the id of the queue's entry as soon as the answer begins. */
  onid?: (id: string) => void;
  /** What a POST sends. */
  body?: { type: string; text: string };
}

let unauthorized: () => void = () => {};

/** Called when the server no longer accepts the session. */
export function onUnauthorized(act: () => void): void {
  unauthorized = act;
}

let missing: (stores: string) => void = () => {};

/** Called after each answer to a query with the stores whose lines it lacks; mostly none, the empty text. */
export function onMissing(act: (stores: string) => void): void {
  missing = act;
}

/** Calls that go on without stores that are away. */
const PARTIAL_PATHS = '/select/logsql/';

export type Params = Record<string, string | number | null | undefined>;

/** Longer query strings are sent as a form: servers and proxies limit the length of a URL. */
const URL_CHARS_MAX = 4000;

export async function call(path: string, params: Params, options: CallOptions = {}, method = 'GET'): Promise<Response> {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined) form.set(name, String(value));
  }
  const isQuery = path.startsWith(PARTIAL_PATHS);
  if (isQuery) form.set('allow_partial_response', '1');
  const text = form.toString();
  const { body } = options;
  const asForm = !body && (method === 'GET' || method === 'POST') && text.length > URL_CHARS_MAX;
  const url = asForm || text === '' ? path : `${path}?${text}`;
  let response: Response;
  try {
    response = await fetch(url, {
      method: asForm ? 'POST' : method,
      ...(asForm ? { body: form } : body ? { body: body.text, headers: { 'Content-Type': body.type } } : {}),
      ...(options.signal ? { signal: options.signal } : {}),
      cache: 'no-store',
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError('The server cannot be reached. Is Loginson running?', 0);
  }
  const id = response.headers.get('X-Loginson-Query-Id');
  if (id !== null) options.onid?.(id);
  if (response.status === 401) unauthorized();
  if (!response.ok) throw await toError(response);
  if (isQuery) missing(response.headers.get('X-Loginson-Missing-Stores') ?? '');
  return response;
}

// ---- session ----

/** `/api/v1/me`; see access.ts. */
export function whoAmI(): Promise<unknown> {
  return json('/api/v1/me', {});
}

/** Begins a session; the browser keeps the cookie. The password is sent in a form, never in a URL. */
export async function logIn(name: string, password: string): Promise<unknown> {
  const body = new URLSearchParams({ name, password });
  let response: Response;
  try {
    response = await fetch('/api/v1/login', { method: 'POST', body, cache: 'no-store' });
  } catch {
    throw new ApiError('The server cannot be reached. Is Loginson running?', 0);
  }
  if (!response.ok) throw await toError(response);
  return response.json();
}

export async function logOut(): Promise<void> {
  await call('/api/v1/logout', {}, {}, 'POST');
}

async function toError(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '');
  try {
    const body = JSON.parse(text) as { error?: string; position?: number; expected?: string[]; query?: string; line?: number };
    const message = body.error ?? `The server answered ${response.status}.`;
    return new ApiError(message, response.status, body.position ?? null, body.expected ?? [], body.query ?? null, body.line ?? null);
  } catch {
    return new ApiError(text.trim().slice(0, 500) || `The server answered ${response.status}.`, response.status);
  }
}

export async function json<T>(path: string, params: Params, options?: CallOptions, method?: string): Promise<T> {
  const response = await call(path, params, options, method);
  return (await response.json()) as T;
}

/** The query was cancelled, here or in the queue: an intended end, not a failure. */
export function isCancelled(error: unknown): boolean {
  return error instanceof ApiError && /^the query was cancelled/i.test(error.message);
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}

export function spanParams(span: Span): Params {
  return { start: new Date(span.startMs).toISOString(), end: new Date(span.endMs).toISOString() };
}

// ---- queries ----

export interface LinesParams {
  query: string;
  span: Span;
  limit: number;
  offset?: number;
  /** Nanoseconds, used instead of the start of the span. */
  startNs?: bigint;
  /** Nanoseconds, exclusive; used instead of the end of the span. */
  endNs?: bigint;
  /** For a query without pipes. */
  oldestFirst?: boolean;
}

/** Newest first, unless said otherwise. `take` is called with each chunk of rows; if a limit ended the query, this throws at the end. */
export async function queryLines(params: LinesParams, take: (rows: Row[]) => void, options: CallOptions): Promise<void> {
  const offset = params.offset ?? 0;
  // On a line of its own, since the query may end with a comment.
  const sort = params.oldestFirst ? `\n| sort by (_time)${offset > 0 ? ` offset ${offset}` : ''} limit ${params.limit}` : '';
  const response = await call(
    '/select/logsql/query',
    {
      query: params.query + sort,
      ...spanParams(params.span),
      ...(params.startNs === undefined ? {} : { start: String(params.startNs) }),
      ...(params.endNs === undefined ? {} : { end: String(params.endNs) }),
      limit: params.limit,
      offset: (!params.oldestFirst && offset) || null,
      include: '_line_id,_line,_received',
    },
    options,
  );
  let failure: string | null = null;
  if (response.body) {
    await readJsonLines(response.body, (rows) => {
      const last = rows[rows.length - 1];
      const error = last && noteOf(last).error;
      if (error !== undefined) {
        failure = error;
        rows.pop();
      }
      take(rows);
    });
  }
  if (failure !== null) throw new ApiError(failure, 200);
}

/** Formats of an export, and their labels. */
export const EXPORT_FORMATS = { raw: 'Lines', jsonl: 'JSON', csv: 'CSV', parquet: 'Parquet' } as const;
export type ExportFormat = keyof typeof EXPORT_FORMATS;

/** All matching rows, without a limit, oldest first. */
export function exportUrl(query: string, span: Span, format: ExportFormat): string {
  const start = new Date(span.startMs).toISOString();
  const params = new URLSearchParams({ query, start, end: new Date(span.endMs).toISOString(), format });
  return `/api/v1/export?${params.toString()}`;
}

export interface HitsGroup {
  fields: Record<string, string>;
  timestamps: string[];
  values: number[];
  total: number;
}

export async function queryHits(query: string, span: Span, stepMs: number, field: string, options: CallOptions): Promise<HitsGroup[]> {
  const answer = await json<{ hits: HitsGroup[] }>(
    '/select/logsql/hits',
    { query, ...spanParams(span), step: stepParam(stepMs), field },
    options,
  );
  return answer.hits;
}

export interface Facet {
  field_name: string;
  values: { field_value: string; hits: number }[];
}

export async function queryFacets(query: string, span: Span, limit: number, options: CallOptions): Promise<Facet[]> {
  const answer = await json<{ facets: Facet[] }>('/select/logsql/facets', { query, ...spanParams(span), limit, keep_const_fields: 1 }, options);
  return answer.facets;
}

export interface ValueHits {
  value: string;
  hits: number;
}

export async function fieldNames(query: string, span: Span, options: CallOptions): Promise<ValueHits[]> {
  const answer = await json<{ values: ValueHits[] }>('/select/logsql/field_names', { query, ...spanParams(span) }, options);
  return answer.values;
}

export async function fieldValues(
  query: string,
  span: Span,
  field: string,
  limit: number,
  filter: string,
  options: CallOptions,
): Promise<ValueHits[]> {
  const answer = await json<{ values: ValueHits[] }>(
    '/select/logsql/field_values',
    { query, ...spanParams(span), field, limit, filter: filter || null },
    options,
  );
  return answer.values;
}

/** Lines as they arrive, until the signal aborts it or the connection ends. `onopen` is called when the answer begins. */
export async function tailLines(query: string, take: (rows: Row[]) => void, onopen: () => void, options: CallOptions): Promise<void> {
  const response = await call('/select/logsql/tail', { query, include: '_line_id,_line,_received' }, options);
  onopen();
  if (response.body) await readJsonLines(response.body, take);
}

export interface ContextAnswer {
  stream: string;
  rows: Row[];
}

export function contextOf(id: string, before: number, after: number, options: CallOptions): Promise<ContextAnswer> {
  return json('/api/v1/context', { id, before, after }, options);
}

// ---- summary ----

export interface SummaryType {
  type: string;
  lines: number;
  bytes: number;
  levels: Record<string, number>;
}

export async function summaryTypes(span: Span, options: CallOptions): Promise<SummaryType[]> {
  const answer = await json<{ types: SummaryType[] }>('/api/v1/summary/types', spanParams(span), options);
  return answer.types;
}

export interface Summary {
  type: string;
  step_s: number;
  bucket_s: number;
  timestamps: string[];
  lines: number[];
  bytes: number[];
  series: Record<string, Record<string, number[]>>;
  totals: Record<string, Record<string, number>>;
  sums?: Record<string, number[]>;
  /** Parts that were summarised again. */
  reruns?: SummaryRerun[];
}

export interface SummaryRerun {
  id: string;
  type: string;
  start: string;
  end: string;
  at: string;
}

export function summaryOf(type: string, span: Span, stepMs: number, options: CallOptions): Promise<Summary> {
  return json('/api/v1/summary', { type, ...spanParams(span), step: stepParam(stepMs) }, options);
}

// ---- queue ----

export interface QueueEntry {
  id: string;
  kind: string;
  query: string;
  state: 'waiting' | 'running' | 'paused' | 'done' | 'cancelled' | 'failed' | 'interrupted';
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
  /** Bytes of all stored rows. */
  result_bytes: number;
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

// ---- status ----

export interface IngestSource {
  source: string;
  /** A readable name. */
  title: string;
  lines_received: number;
  bytes_received: number;
  lines_kept: number;
  bytes_kept: number;
  /** Received, and not yet kept or dropped. */
  lines_in_flight: number;
  bytes_in_flight: number;
  connections_total: number;
  connections_open: number;
  connections_refused: number;
  /** Dropped lines by reason. */
  dropped: Record<string, number>;
  /** Bytes that were received and not kept, by reason. */
  dropped_bytes: Record<string, number>;
}

export interface Status {
  version: string;
  started: string;
  now: string;
  uptime_s: number;
  ready: boolean;
  ingest: IngestSource[];
  /** Null while the store is being opened. */
  store: StoreStatus | null;
  parse_lag_lines: number;
  recovery: string;
  /** Null for listeners that are off. */
  listeners: Record<string, string | null>;
  /** Null when no files are followed. */
  files: FileTotals | null;
  /** Null when the journal is not read. */
  journald: { reading: boolean; entries: number; error: string | null } | null;
  data_dir: string;
  /** Whether queries read the lines of other nodes. */
  cluster: boolean;
}

/** What `/api/v1/cluster` says: `nodes` and `partitions` of a cluster, or `copies` of several stores. */
export interface ClusterState {
  nodes?: { node: string; address: string; roles: string[]; version: string; state: string; silent_s: number; accepting: boolean; partitions: number }[];
  partitions?: { partition: number; owner: string | null; end: number; unpublished: number }[];
  partitions_unowned?: number;
  segments?: number;
  segments_bytes?: number;
  copies?: { whole: boolean; stores: { store: string; state: string; error?: string; lines?: number; bytes_disk?: number }[] }[];
}

export function clusterState(options: CallOptions): Promise<ClusterState> {
  return json<ClusterState>('/api/v1/cluster', {}, options);
}

export interface FileTotals {
  followed: number;
  unreadable: number;
  /** Bytes of the file that are not durable yet. */
  lag_bytes: number;
  bytes_lost: number;
}

export interface FollowedFile {
  path: string;
  state: string;
  size_bytes: number;
  lag_bytes: number;
  /** The time of the last read that found bytes. */
  read: string | null;
  error: string | null;
}

/** The followed files: those that cannot be read first, then by path. */
export async function followedFiles(limit: number, options: CallOptions): Promise<FollowedFile[]> {
  const answer = await json<{ files: FollowedFile[] }>('/api/v1/files', { limit }, options);
  return answer.files;
}

export interface StoreStatus {
  lines: number;
  bytes_raw: number;
  bytes_disk: number;
  segments: number;
  segments_sealed: number;
  sealed_bytes_raw: number;
  sealed_bytes_disk: number;
  sealing: { lag_segments: number; lag_bytes: number; lag_s: number; damaged_segments: number };
  oldest: string | null;
  newest: string | null;
  /** Space that Loginson may still use; null, as the two below, if the system does not report it. */
  disk_free_bytes: number | null;
  /** Space used by files of all programs; with the free bytes less than the total if a part is reserved. */
  disk_used_bytes: number | null;
  disk_total_bytes: number | null;
  retention: { age_s: number | null; bytes_max: number | null };
  state: string;
}

export function status(options: CallOptions = {}): Promise<Status> {
  return json('/api/v1/status', {}, options);
}
