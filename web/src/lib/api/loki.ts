// Queries in LogQL as typed calls; docs/grafana.md says what of the language is supported.

import type { Row } from '../base/jsonl';
import type { Span } from '../base/time';
import { rowsOfLogQl, type LogQlData } from '../query/logql';
import { json, type CallOptions } from './call';

/** Lines of a query without numbers; the server takes 5,000 at most. */
const LINES_MAX = 1_000;

/** Spans may begin and end within a millisecond, which the server's clock tells. */
const nanoseconds = (ms: number): string => `${ms}000000`;

/**
 * The rows of a query over a span, in steps, and the query of LogsQL whose result would look so.
 * `isCut`: of lines, the newest ones; there may be more.
 */
export async function queryLogQl(query: string, span: Span, stepMs: number, rowsMax: number, options: CallOptions = {}): Promise<{ rows: Row[]; like: string | null; isCut: boolean }> {
  const params = { query, start: nanoseconds(Math.floor(span.startMs)), end: nanoseconds(Math.ceil(span.endMs)), step: stepMs / 1000, limit: LINES_MAX };
  const { data } = await json<{ data: LogQlData }>('/loki/api/v1/query_range', params, options);
  const answer = rowsOfLogQl(data, stepMs, rowsMax);
  return { ...answer, isCut: answer.like === null && answer.rows.length >= LINES_MAX };
}
