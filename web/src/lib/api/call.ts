// Calls of the HTTP API and their errors. Nothing in this folder keeps state; docs/api.md describes
// the API.

import type { Span } from '../base/time';

/**
 * An error response. `position` (bytes) and `expected` are set for a wrong query, `line` (from 1)
 * for a wrong program.
 */
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
  /** What a POST or PUT sends. */
  body?: { type: string; text: string | Blob };
}

let unauthorized: () => void = () => {};

/** Called when the server no longer accepts the session. */
export function onUnauthorized(act: () => void): void {
  unauthorized = act;
}

/** What does not answer in a cluster, and what that means for an answer. */
export interface Notice {
  what: 'log' | 'partition' | 'objects' | 'catalog';
  text: string;
}

let missing: (stores: string, lines: string, notices: Notice[]) => void = () => {};

/**
 * Called after each answer to a query with the stores whose lines it lacks, with one sentence about
 * lines that are missing, and with what does not answer in a cluster; mostly all are empty.
 */
export function onMissing(act: (stores: string, lines: string, notices: Notice[]) => void): void {
  missing = act;
}

/** Calls that are answered even if some stores do not respond. */
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
  const header = (name: string) => response.headers.get(name) ?? '';
  if (isQuery) missing(header('X-Loginson-Missing-Stores'), header('X-Loginson-Missing-Lines'), noticesOf(header('X-Loginson-Notices')));
  return response;
}

/** The notices in the value of a header; none if a proxy cut it. */
function noticesOf(text: string): Notice[] {
  try {
    return text === '' ? [] : (JSON.parse(text) as Notice[]);
  } catch {
    return [];
  }
}

/** The error that a response stands for. */
export async function toError(response: Response): Promise<ApiError> {
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
