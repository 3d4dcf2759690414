// What stands out among lines: series of lines by level, type, program and host, and quantiles of numbers, each watched
// by the anomaly detector of the server, which knows what each series usually does.

import type { Row } from '../base/jsonl';
import type { ShownFacet } from './facets';
import { hasFieldFilter, isFilter, quoteField } from '../query/logsql';
import { niceStep, stepParam } from '../base/steps';
import type { Span } from '../base/time';

/** Something that stands out. */
export interface Standing {
  /** The field whose lines, or whose numbers, are unusual. */
  field: string;
  /** The value whose lines they are; null for numbers of the field. */
  value: string | null;
  atMs: number;
  number: number;
  expected: number;
  /** From 0.5 to 1. */
  score: number;
  reason: string;
}

/** A query that finds what stands out of one field. */
export interface StandingQuery {
  field: string;
  /** Whether it is about the numbers of the field, and not about lines by its values. */
  isNumber: boolean;
  query: string;
  span: Span;
}

/** Steps of the range; the time before it, of which usual numbers are learned, has three times as many. */
const STEPS = 60;
const LEARNED_SPANS = 3;
/** Several fields may say the same: the first that the line has is taken. */
const GROUPS = [['_level'], ['_type'], ['app_name', 'app', 'service'], ['hostname', 'host']] as const;
const NUMBERS_MAX = 2;
const EACH_MAX = 3;
export const STANDING_MAX = 4;

/** The step in which a range is watched. */
export function standingStep(span: Span): number {
  return niceStep(span, 1, STEPS);
}

export function standingQueries(filter: string, span: Span, facets: readonly ShownFacet[]): StandingQuery[] {
  const stepMs = standingStep(span);
  const step = stepParam(stepMs);
  const within = {
    startMs: Math.ceil((span.startMs - LEARNED_SPANS * (span.endMs - span.startMs)) / stepMs) * stepMs,
    // An incomplete step has fewer lines than usual.
    endMs: Math.floor(span.endMs / stepMs) * stepMs,
  };
  const worst = `filter anomaly_new:1 _time:>="${new Date(span.startMs).toISOString()}" | sort by (anomaly desc) | limit ${EACH_MAX}`;
  const varied = (field: string): boolean => facets.some((facet) => facet.field === field && facet.values.length > 1);
  const groups = GROUPS.flatMap((names) => names.find(varied) ?? []);
  const numbers = facets.filter((facet) => facet.numbers !== null && !facet.noise && !/(^|[._-])(id|status|code|port)$/i.test(facet.field));
  return [
    ...groups.map((field) => {
      const by = quoteField(field);
      const query = `${filter} | stats by (_time:${step}, ${by}) count() n | anomalies by (${by}) n step ${step} | ${worst}`;
      return { field, isNumber: false, query, span: within };
    }),
    ...numbers.slice(0, NUMBERS_MAX).map(({ field }) => {
      const query = `${filter} | stats by (_time:${step}) quantile(0.99, ${quoteField(field)}) n | anomalies n | ${worst}`;
      return { field, isNumber: true, query, span: within };
    }),
  ];
}

export function standingOf({ field, isNumber }: StandingQuery, rows: readonly Row[]): Standing[] {
  return rows.flatMap((row) => {
    const atMs = Date.parse(row['_time'] ?? '');
    if (!Number.isFinite(atMs)) return [];
    const number = (name: string): number => Number(row[name] ?? 0);
    return [{ field, value: isNumber ? null : (row[field] ?? ''), atMs, number: number('n'), expected: number('expected'), score: number('anomaly'), reason: row['reason'] ?? '' }];
  });
}

/** With less of a change than this share, an unusual number is no news to people. */
const CHANGE_MIN = 0.2;

/** The share by which a number differs from what was expected: 1 for silence, 0.5 for twice as many. */
function change({ number, expected }: Standing): number {
  const greater = Math.max(Math.abs(number), Math.abs(expected));
  return greater === 0 ? 0 : Math.min(1, Math.abs(number - expected) / greater);
}

/** The most unusual and largest changes; of those of one moment or one series, the first of them. */
export function rankStanding(found: readonly Standing[], stepMs: number): Standing[] {
  const kept: Standing[] = [];
  const weight = (one: Standing): number => one.score * change(one);
  for (const one of [...found].sort((a, b) => weight(b) - weight(a))) {
    const isOther = (other: Standing): boolean => Math.abs(other.atMs - one.atMs) > 2 * stepMs && (other.field !== one.field || other.value !== one.value);
    const isNews = change(one) >= CHANGE_MIN && kept.every(isOther);
    if (isNews) kept.push(one);
    if (kept.length === STANDING_MAX) break;
  }
  return kept.sort((a, b) => b.atMs - a.atMs);
}

/** The filter of the lines that stand out, so that they are compared with themselves. Of what is silent there are none. */
export function scopeOfStanding({ field, value, number, expected }: Standing): string {
  if (value === null) return hasFieldFilter(field);
  return number < expected ? '' : isFilter(field, value);
}

/** What to compare with the time before: from where it began to the end of the range, ten steps at most. */
export function spanOfStanding(one: Standing, span: Span): Span {
  const stepMs = standingStep(span);
  return { startMs: one.atMs, endMs: Math.min(span.endMs, one.atMs + 10 * stepMs) };
}
