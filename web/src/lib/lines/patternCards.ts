// Patterns as cards: their share, course, levels and hosts, and how that was in the time before.

import type { Row } from '../base/jsonl';
import { levelOf, LEVELS, type Level } from '../base/levels';
import { niceStep, stepParam } from '../base/steps';
import { timeToMs, type Span } from '../base/time';
import { literalLength, patternFilter, patternsQuery, PATTERNS_SHOWN } from '../query/patterns';
import { quoteField } from '../query/logsql';
import type { Comparing } from './differences';
import { LEVEL_FIELD } from './rows';

/** Cards whose course, levels and hosts are asked for: the most frequent ones. */
export const DETAILED_MAX = 30;
/** Steps of a course. */
const STEPS = 40;
/** Patterns that ended, at most, and the lines that each had. */
const GONE_MAX = 5;
const GONE_LINES_MIN = 5;
/** Less change than this is no trend. */
const TREND_MIN = 1.5;
/** A pattern with fewer lines in both times has no trend. */
const TREND_LINES_MIN = 10;
const MARK = '__pattern';

export interface PatternCard {
  pattern: string;
  hits: number;
  /** Its share of all lines, from 0 to 1; null if it is not known how many these are. */
  share: number | null;
  example: string;
  firstMs: number | null;
  lastMs: number | null;
  /** Lines in the time before, of the same length; null if that is not known. */
  before: number | null;
  turn: 'new' | 'gone' | null;
}

/** The course and level of a pattern. */
export interface PatternDetail {
  course: number[];
  level: Level | null;
}

/** How many hosts wrote a pattern, and one of them. */
export interface PatternHosts {
  count: number;
  one: string;
}

/** The time before a range, of the same length. */
export function spanBefore({ startMs, endMs }: Span): Span {
  return { startMs: startMs - (endMs - startMs), endMs: startMs };
}

export function earlierQuery(before: string, field: string, span: Span): Comparing {
  return { query: patternsQuery(before, field), span: spanBefore(span) };
}

function msOf(text: string | undefined): number | null {
  const ms = timeToMs(text ?? '');
  return Number.isFinite(ms) ? ms : null;
}

/**
 * Cards of the rows of `patterns`; `earlier` are those of the time before, null while they are not known. `lines` is how
 * many lines there are, of which a list that was cut has only some; null if that is not known.
 */
export function cardsOf(rows: readonly Row[], earlier: readonly Row[] | null, lines: number | null = null): PatternCard[] {
  const listed = rows.reduce((sum, row) => sum + Number(row['hits'] ?? 0), 0);
  const isCut = rows.length >= PATTERNS_SHOWN;
  const all = !isCut ? listed : lines === null ? null : Math.max(lines, listed);
  const hits = new Map(earlier?.map((row) => [row['pattern'] ?? '', Number(row['hits'] ?? 0)]));
  // A list that was cut may lack a pattern that was there; without lines before, nothing is new.
  const isWhole = earlier !== null && earlier.length > 0 && earlier.length < PATTERNS_SHOWN;
  const cards = rows.map((row): PatternCard => {
    const pattern = row['pattern'] ?? '';
    const before = hits.get(pattern) ?? (isWhole ? 0 : null);
    const own = Number(row['hits'] ?? 0);
    return { pattern, hits: own, share: all === null ? null : all > 0 ? own / all : 0, example: row['example'] ?? '', firstMs: msOf(row['first']), lastMs: msOf(row['last']), before, turn: before === 0 ? 'new' : null };
  });
  const isListed = rows.length < PATTERNS_SHOWN;
  const known = new Set(cards.map(({ pattern }) => pattern));
  const gone = (isListed ? (earlier ?? []) : []).filter((row) => !known.has(row['pattern'] ?? '') && Number(row['hits'] ?? 0) >= GONE_LINES_MIN);
  const ended = gone.slice(0, GONE_MAX).map((row): PatternCard => ({
    pattern: row['pattern'] ?? '', hits: 0, share: 0, example: row['example'] ?? '', firstMs: msOf(row['first']), lastMs: msOf(row['last']), before: Number(row['hits'] ?? 0), turn: 'gone',
  }));
  return [...cards, ...ended];
}

/** How many times as many lines as before; 1 for no trend, Infinity for what is new, 0 for what is gone. */
export function trendOf({ hits, before, turn }: PatternCard): number {
  if (turn !== null) return turn === 'new' ? Infinity : 0;
  if (before === null || Math.max(hits, before) < TREND_LINES_MIN) return 1;
  const ratio = hits / before;
  return ratio >= TREND_MIN || ratio <= 1 / TREND_MIN ? ratio : 1;
}

/** By lines, as they come, or those first that changed the most: new ones, then those that rise or fall. */
export function sortCards(cards: readonly PatternCard[], byTrend: boolean): PatternCard[] {
  if (!byTrend) return [...cards];
  const size = (card: PatternCard): number => Math.abs(Math.log(Math.min(1e9, Math.max(1e-9, trendOf(card)))));
  return [...cards].sort((a, b) => size(b) - size(a) || Number(b.turn === 'new') - Number(a.turn === 'new') || b.hits - a.hits);
}

/** Marks lines by their pattern; where two fit, the one with more text, as the server counted them. */
function marked(before: string, field: string, patterns: readonly string[]): string {
  const order = patterns.map((pattern, place) => ({ pattern, place })).sort((a, b) => literalLength(a.pattern) - literalLength(b.pattern));
  const marks = order.map(({ pattern, place }) => `format if (${patternFilter(pattern, field)}) "${place}" as ${MARK}`);
  return [before || '*', ...marks, `filter ${MARK}:*`].join(' | ');
}

export function courseQuery(before: string, field: string, patterns: readonly string[], span: Span): string {
  return `${marked(before, field, patterns)} | stats by (${MARK}, _time:${stepParam(niceStep(span, 1, STEPS))}, ${LEVEL_FIELD}) count() n`;
}

export function hostsQuery(before: string, field: string, patterns: readonly string[], hostField: string): string {
  const host = quoteField(hostField);
  return `${marked(before, field, patterns)} | stats by (${MARK}) count_uniq(${host}) hosts, max(${host}) host`;
}

/** The hosts of patterns, from the answer. */
export function hostsOf(rows: readonly Row[], patterns: readonly string[]): Map<string, PatternHosts> {
  return new Map(rows.flatMap((row) => {
    const pattern = patterns[Number(row[MARK])];
    return pattern === undefined ? [] : [[pattern, { count: Number(row['hosts'] ?? 0), one: row['host'] ?? '' }]];
  }));
}

/** The details of patterns from the answer, in the order of the patterns. */
export function detailsOf(course: readonly Row[], count: number, span: Span): PatternDetail[] {
  const stepMs = niceStep(span, 1, STEPS);
  const steps = Math.max(1, Math.ceil((span.endMs - span.startMs) / stepMs));
  const firstMs = Math.floor(span.startMs / stepMs) * stepMs;
  const found = Array.from({ length: count }, () => ({ course: new Array<number>(steps).fill(0), levels: new Map<Level, number>() }));
  for (const row of course) {
    const own = found[Number(row[MARK])];
    const at = Math.min(steps - 1, Math.round((timeToMs(row['_time'] ?? '') - firstMs) / stepMs));
    const n = Number(row['n'] ?? 0);
    if (!own || !(at >= 0)) continue;
    own.course[at] = (own.course[at] ?? 0) + n;
    const level = levelOf(row[LEVEL_FIELD]);
    if (level !== 'none') own.levels.set(level, (own.levels.get(level) ?? 0) + n);
  }
  return found.map(({ course, levels }) => ({
    course,
    // The most frequent level; of equal ones, the worst.
    level: LEVELS.filter((level) => levels.has(level)).reduce<Level | null>((most, level) => (most === null || (levels.get(level) ?? 0) > (levels.get(most) ?? 0) ? level : most), null),
  }));
}
