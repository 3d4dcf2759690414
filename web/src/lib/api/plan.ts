// The plan of a query, and what its run took, as a typed call.

import { call, json, spanParams, type CallOptions } from './call';
import type { Span } from '../base/time';

/** What a run read. */
export interface Work {
  ms: number;
  lines_scanned: number;
  bytes_scanned: number;
  blocks_planned: number;
  blocks_done: number;
  /** Those without a word that the query needs. */
  blocks_skipped: number;
}

/** What one node of a cluster is asked for. */
export interface Share {
  node: string;
  segments: number;
  segments_lines: number;
  /** In object storage. */
  segments_bytes: number;
  partitions: readonly unknown[];
  run: (Work & { complete: boolean; first_ms: number | null; asked_elsewhere: string | null; answered_by: string | null; error: string | null }) | null;
}

/** Who is asked for what, in a cluster. */
export interface SharePlan {
  shares: Share[];
  /** A sentence for what nobody answers for. */
  out_of_reach: string[];
  /** Why there is a further plan. */
  planned_again: string | null;
}

export interface Explained {
  plans?: SharePlan[];
  plans_left_out?: number;
  run?: Work & { rows: number };
}

/** A sentence of a plan and what it is about. */
export interface PlanLine {
  about: string;
  text: string;
}

/** The characters of a plan's line that say what it is about. */
const ABOUT_CHARS = 9;
/** What is in the table of shares. */
const OF_SHARES = new Set(['share', 'missing', 'again', 'plans', 'run']);

/** The plan as sentences, without reading a line. */
export async function planOf(query: string, span: Span, options: CallOptions): Promise<PlanLine[]> {
  const answer = await call('/select/logsql/explain', { query, ...spanParams(span) }, options);
  return planLines(await answer.text());
}

/** The sentences of a plan as it is printed: nine characters and a space before each; a query has several lines. */
export function planLines(text: string): PlanLine[] {
  const lines: PlanLine[] = [];
  for (const line of text.split('\n')) {
    const about = line.slice(0, ABOUT_CHARS);
    const last = lines[lines.length - 1];
    if (/^[a-z][a-z0-9 ]* *$/.test(about) && line[ABOUT_CHARS] === ' ') lines.push({ about: about.trim(), text: line.slice(ABOUT_CHARS + 1) });
    else if (last && line !== '') last.text += `\n${line}`;
  }
  return lines.filter(({ about }) => !OF_SHARES.has(about));
}

/** Who is asked for what; with `analyze` the query runs, and its rows are dropped. */
export function explained(query: string, span: Span, analyze: boolean, options: CallOptions): Promise<Explained> {
  return json('/select/logsql/explain', { query, ...spanParams(span), format: 'json', analyze: analyze ? 1 : null }, options);
}
