// Summaries by type, as typed calls.

import { stepParam } from '../base/steps';
import type { Span } from '../base/time';
import { json, spanParams, type CallOptions } from './call';

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
