// Queries and live tails of lines, as typed calls.

import { noteOf, readJsonLines, type Row } from '../base/jsonl';
import { stepParam } from '../base/steps';
import type { Span } from '../base/time';
import { ApiError, call, json, spanParams, type CallOptions } from './call';

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

/**
 * Lines as they arrive, until the signal aborts it or the connection ends. `onopen` is called when the answer begins,
 * `onheard` whenever the server sends something, which it does every few seconds without lines, too. `sinceS` says how
 * many seconds back it begins; null: as far as the server does by itself.
 */
export async function tailLines(query: string, sinceS: number | null, take: (rows: Row[]) => void, onopen: () => void, onheard: () => void, options: CallOptions): Promise<void> {
  const start_offset = sinceS === null ? null : `${sinceS}s`;
  const response = await call('/select/logsql/tail', { query, include: '_line_id,_line,_received', start_offset }, options);
  onopen();
  if (response.body) await readJsonLines(response.body, take, onheard);
}

/** What a text in Lucene's syntax is as a filter in LogsQL. Nothing is run. */
export async function fromLucene(text: string, options: CallOptions): Promise<string> {
  return (await json<{ logsql: string }>('/api/v1/lucene', { query: text }, options)).logsql;
}

export interface ContextAnswer {
  stream: string;
  rows: Row[];
}

export function contextOf(id: string, before: number, after: number, options: CallOptions): Promise<ContextAnswer> {
  return json('/api/v1/context', { id, before, after }, options);
}
