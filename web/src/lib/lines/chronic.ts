// What is not new and still wrong: series of lines or numbers against themselves. A rhythm is a burst that comes again
// after the same time; growth is a number that rises over the whole time.

import type { Row } from '../base/jsonl';
import { niceStep, stepParam } from '../base/steps';
import { timeToMs, type Span } from '../base/time';
import { allOf, hasFieldFilter, isFilter, quoteField, timeFilter } from '../query/logsql';
import type { Comparing } from './differences';
import type { Standing, StandingQuery } from './standing';

/** Something that comes again and again, or grows. */
export type Chronic = {
  field: string;
  /** The value whose lines they are; null for numbers of the field. */
  value: string | null;
} & ({ kind: 'rhythm'; periodMs: number; bursts: Span[]; usual: number; peak: number } | { kind: 'growth'; from: number; to: number; span: Span });

/** Steps that a range and the time before it are looked at in. */
const STEPS = 240;
/** Rows of an answer; of more series than fit, the rest is not looked at. */
export const CHRONIC_ROWS_MAX = 10_000;
export const CHRONIC_MAX = 2;
/** A burst is so many standard deviations above what is usual, and so many times it. */
const BURST_DEVIATIONS = 5;
const BURST_TIMES = 1.5;
/** Fewer bursts than this are no rhythm, … */
const BURSTS_MIN = 4;
/** … and neither are bursts further apart or closer than the others by more than this share, … */
const REGULAR_SHARE = 0.1;
/** … nor those that cover less of the time than this. */
const COVERED_MIN = 0.6;
/** Bursts that a comparison names, the last ones. */
const COMPARED_MAX = 12;
/** Silence: steps without a line, of which one has this many lines less than usual: by chance, once in a million. */
const SILENT_STEPS_MIN = 3;
const SILENT_LINES_MIN = 14;
/** Growth: this much of all pairs of numbers must rise, from so many numbers, by so much. */
const TAU_MIN = 0.6;
const NUMBERS_MIN = 20;
const GROWTH_MIN = 1.3;

/** The same series as those watched for what is unusual, as numbers over time. */
export function chronicQueries(filter: string, watched: readonly StandingQuery[]): StandingQuery[] {
  return watched.map((one) => {
    const step = stepParam(niceStep(one.span, 1, STEPS));
    const by = one.isNumber ? '' : `, ${quoteField(one.field)}`;
    const what = one.isNumber ? `quantile(0.9, ${quoteField(one.field)})` : 'count()';
    return { ...one, query: `${filter} | stats by (_time:${step}${by}) ${what} n` };
  });
}

function medianOf(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted.length === 0 ? 0 : (sorted[sorted.length >> 1] as number);
}

/** Runs of numbers far above the usual ones, as places of the first and the last. */
function burstsOf(numbers: readonly number[], isCount: boolean): { runs: [number, number][]; usual: number } {
  const usual = medianOf(numbers);
  const spread = 1.4826 * medianOf(numbers.map((one) => Math.abs(one - usual)));
  const least = Math.max(usual + BURST_DEVIATIONS * Math.max(spread, isCount ? Math.sqrt(Math.max(1, usual)) : 0), BURST_TIMES * usual);
  const runs: [number, number][] = [];
  numbers.forEach((one, at) => {
    const last = runs.at(-1);
    if (one <= least) return;
    if (last && last[1] === at - 1) last[1] = at;
    else runs.push([at, at]);
  });
  return { runs, usual };
}

/** The time after which bursts come again, in steps; null if they have no rhythm. */
function periodOf(runs: readonly [number, number][], count: number): number | null {
  const pauses = runs.slice(1).map((run, at) => run[0] - (runs[at] as [number, number])[0]);
  const period = medianOf(pauses);
  if (runs.length < BURSTS_MIN || period < 3) return null;
  const isRegular = pauses.every((pause) => Math.abs(pause - period) <= Math.max(1, REGULAR_SHARE * period));
  return isRegular && period * runs.length >= COVERED_MIN * count ? period : null;
}

/** The share of pairs that rise, less that of those that fall: Kendall's τ. */
function tauOf(numbers: readonly number[]): number {
  let sum = 0;
  numbers.forEach((one, at) => {
    for (const later of numbers.slice(at + 1)) sum += Math.sign(later - one);
  });
  return (2 * sum) / (numbers.length * (numbers.length - 1));
}

/** The series of one of the queries, by value; null where there is no number. */
function seriesOf({ field, isNumber, span }: StandingQuery, rows: readonly Row[]): { stepMs: number; firstMs: number; count: number; series: Map<string, (number | null)[]> } {
  const stepMs = niceStep(span, 1, STEPS);
  const count = Math.floor((span.endMs - span.startMs) / stepMs);
  const firstMs = Math.ceil(span.startMs / stepMs) * stepMs;
  const series = new Map<string, (number | null)[]>();
  for (const row of rows) {
    const [key, at, n] = [isNumber ? '' : (row[field] ?? ''), Math.round((timeToMs(row['_time'] ?? '') - firstMs) / stepMs), Number(row['n'])];
    if (!(at >= 0 && at < count) || !Number.isFinite(n)) continue;
    const own = series.get(key) ?? new Array<number | null>(count).fill(isNumber ? null : 0);
    own[at] = n;
    series.set(key, own);
  }
  return { stepMs, firstMs, count, series };
}

/** Series of lines that ended, although lines came all the time before. */
export function silencesOf(query: StandingQuery, rows: readonly Row[]): Standing[] {
  if (query.isNumber) return [];
  const { stepMs, firstMs, count, series } = seriesOf(query, rows);
  return [...series].flatMap(([value, all]): Standing[] => {
    const numbers = all.map((one) => one ?? 0);
    const last = numbers.length - 1 - [...numbers].reverse().findIndex((one) => one > 0);
    const silent = count - 1 - last;
    const before = numbers.slice(0, last + 1);
    let [pause, longest] = [0, 0];
    for (const one of before) {
      pause = one === 0 ? pause + 1 : 0;
      longest = Math.max(longest, pause);
    }
    const usual = before.reduce((sum, one) => sum + one, 0) / Math.max(1, before.length);
    if (before.length < NUMBERS_MIN || silent < SILENT_STEPS_MIN || silent * usual < SILENT_LINES_MIN || silent < 2 * longest) return [];
    return [{ field: query.field, value, atMs: firstMs + (last + 1) * stepMs, number: 0, expected: Math.round(usual), score: 1, reason: `silent: 0 came ${silent} times in a row, to the end` }];
  });
}

/** What the rows of one of the queries say. */
export function chronicOf(query: StandingQuery, rows: readonly Row[]): Chronic[] {
  const { field, isNumber, span } = query;
  const { stepMs, firstMs, count, series } = seriesOf(query, rows);
  return [...series].flatMap(([key, all]): Chronic[] => {
    const value = isNumber ? null : key;
    const numbers = all.filter((one) => one !== null);
    if (numbers.length < NUMBERS_MIN) return [];
    const { runs, usual } = burstsOf(all.map((one) => one ?? medianOf(numbers)), !isNumber);
    const period = periodOf(runs, count);
    if (period !== null) {
      const bursts = runs.map(([from, to]) => ({ startMs: firstMs + from * stepMs, endMs: firstMs + (to + 1) * stepMs }));
      const peak = medianOf(runs.map(([from, to]) => Math.max(...all.slice(from, to + 1).map((one) => one ?? 0))));
      return [{ kind: 'rhythm', field, value, periodMs: period * stepMs, bursts, usual, peak }];
    }
    const quarter = Math.ceil(numbers.length / 4);
    const [from, to] = [medianOf(numbers.slice(0, quarter)), medianOf(numbers.slice(-quarter))];
    if (!isNumber || from <= 0 || to < GROWTH_MIN * from || tauOf(numbers) < TAU_MIN) return [];
    return [{ kind: 'growth', field, value, from, to, span }];
  });
}

/** The strongest ones; of one rhythm that several series have, the first. */
export function rankChronic(found: readonly Chronic[]): Chronic[] {
  const weight = (one: Chronic): number => (one.kind === 'rhythm' ? one.peak / Math.max(1, one.usual) : one.to / one.from);
  const kept: Chronic[] = [];
  for (const one of [...found].sort((a, b) => weight(b) - weight(a))) {
    const isKnown = one.kind === 'rhythm' && kept.some((other) => other.kind === 'rhythm' && other.periodMs === one.periodMs);
    if (!isKnown && kept.length < CHRONIC_MAX) kept.push(one);
  }
  return kept;
}

/**
 * What to compare: the bursts with the time between them, in all lines of the filter, since what causes them may be logged
 * by another; of a number that grows, its last lines with those before.
 */
export function compareChronic(filter: string, one: Chronic, span: Span): Comparing {
  const all = one.kind === 'growth' ? one.span : { startMs: Math.min(span.startMs, one.bursts[0]?.startMs ?? span.startMs), endMs: span.endMs };
  if (one.kind === 'rhythm') {
    const bursts = one.bursts.slice(-COMPARED_MAX);
    const within = { startMs: (bursts[0] as Span).startMs, endMs: all.endMs };
    return { query: `${filter} | differences where (${bursts.map(timeFilter).join(' or ')})`, span: within };
  }
  const scope = one.value === null ? hasFieldFilter(one.field) : isFilter(one.field, one.value);
  const selected = { startMs: Math.floor(all.endMs - (all.endMs - all.startMs) / 4), endMs: all.endMs };
  return { query: `${allOf(filter, scope)} | differences where (${timeFilter(selected)}) scale 0.333333`, span: all };
}
