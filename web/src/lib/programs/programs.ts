// What the list of programs says about each: its state in words, how fast it works, which lines it reads.

import { stepParam } from '../base/steps';
import { allOf, isFilter, quote, quoteField, splitQuery } from '../query/logsql';
import { settingsOf, withoutComments } from './programText';
import type { Language, Program, ProgramState, Sink } from '../api/programs';
import { TYPE_FIELD } from '../lines/rows';

/** How good a state is; the page has one colour for each. */
export type Tone = 'good' | 'idle' | 'warn' | 'bad';

const TONES: Record<ProgramState, Tone> = { running: 'good', waiting: 'idle', disabled: 'idle', behind: 'warn', failing: 'bad', invalid: 'bad' };
const MEANINGS: Record<ProgramState, string> = {
  running: 'It computes its buckets as they end.',
  waiting: 'No bucket is due, or no line has arrived.',
  disabled: 'It is switched off: new lines make no rows.',
  behind: 'Buckets become due faster than it computes them.',
  failing: 'Its last run failed and is repeated.',
  invalid: 'Its text has a mistake, so it does not run.',
};
const SINK_TONES: Record<Sink['state'], Tone> = { delivering: 'good', idle: 'idle', stopped: 'idle', retrying: 'warn', blocked: 'bad', failing: 'bad' };

// A newer server may have states that this page does not know.
export const toneOf = (state: ProgramState): Tone => TONES[state] ?? 'idle';
export const meaningOf = (state: ProgramState): string => MEANINGS[state] ?? '';
export const sinkTone = (state: Sink['state']): Tone => SINK_TONES[state] ?? 'idle';

/** The same rule as the server's, so that a wrong name is refused while it is typed. Null if the name can be used. */
export function nameProblem(name: string, taken: readonly string[]): string | null {
  if (name === '') return 'A program needs a name.';
  if (!/^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}$/.test(name)) return 'A name has 1 to 64 letters, digits, “-”, “_” and “.”, and does not begin with “.”.';
  // These are addresses of the API.
  if (name === 'test' || name === 'reload') return `“${name}” cannot be the name of a program.`;
  if (taken.includes(name)) return `There is a program ${name} already; open it to change it.`;
  return null;
}

/** Which lines a program reads, in LogsQL. The text of a program in LogsQL is a query that selects its lines itself. */
export function linesQuery(of: { language: Language; type: string | null; filter: string | null }, text: string): string {
  const type = of.type ? isFilter(TYPE_FIELD, of.type) : '';
  const own = of.language === 'logsql' ? splitQuery(withoutComments(text)).filter : (of.filter ?? '');
  // A type that the filter of a query names too is not repeated.
  if (type !== '' && own.includes(type)) return allOf(own);
  return allOf(type, bracketed(own));
}

/** The same for a text that was not saved yet. */
export function linesQueryOfText(language: Language, text: string): string {
  const settings = settingsOf(text);
  return linesQuery({ language, type: settings.get('type') ?? null, filter: settings.get('filter') ?? null }, text);
}

/** A filter with alternatives, in brackets: another filter is put in front of it. */
function bracketed(filter: string): string {
  return /\bor\b/i.test(filter) ? `(${filter})` : filter;
}

/** Lines and rows per second. */
export interface Rate {
  lines: number;
  rows: number;
}

interface Totals {
  lines_total: number;
  rows_total: number;
}

/** Polls closer together give no useful rate. */
const POLLS_APART_MIN_S = 0.5;

/** Rates from the counters of two polls. Counters that became smaller were reset by a restart: no rate until the next poll. */
export class ProgramRates {
  rates: ReadonlyMap<string, Rate> = new Map();
  #before: { atMs: number; totals: Map<string, Totals> } | null = null;

  measure(programs: readonly Pick<Program, 'name' | 'lines_total' | 'rows_total'>[], atMs: number): void {
    const before = this.#before;
    const seconds = before ? (atMs - before.atMs) / 1000 : 0;
    if (before && seconds < POLLS_APART_MIN_S) return;
    const rates = new Map<string, Rate>();
    for (const { name, lines_total, rows_total } of programs) {
      const old = before?.totals.get(name);
      if (!old || lines_total < old.lines_total || rows_total < old.rows_total) continue;
      rates.set(name, { lines: (lines_total - old.lines_total) / seconds, rows: (rows_total - old.rows_total) / seconds });
    }
    this.rates = rates;
    this.#before = { atMs, totals: new Map(programs.map((one) => [one.name, { lines_total: one.lines_total, rows_total: one.rows_total }])) };
  }
}

/** 0.4 → `0.4 s`, 200 → `3m 20s`; a program without a lag has none to show. */
export function lagMs(program: Pick<Program, 'lag_s' | 'enabled'>): number | null {
  return program.enabled && program.lag_s > 0 ? program.lag_s * 1000 : null;
}

/** What a panel of a dashboard shows of a program's rows. */
export const SERIES_WAYS = ['sum', 'average', 'percentiles', 'moving', 'derivative'] as const;
export type SeriesWay = (typeof SERIES_WAYS)[number];

export const SERIES_WAY_LABELS: Record<SeriesWay, string> = { sum: 'Sum', average: 'Average', percentiles: 'p50, p90, p99', moving: 'Moving average of an hour', derivative: 'Change per second' };

/**
 * The query of such a panel. Queries see the last revision of each bucket, so a series is never
 * counted twice.
 */
export function seriesQuery(program: string, value: string, split: string | null, bucketMs: number, way: SeriesWay): string {
  const [field, group] = [quoteField(value), split === null ? '' : quoteField(split)];
  const by = [`_time:${stepParam(bucketMs)}`, ...(split === null ? [] : [group])].join(', ');
  const filter = `_type:summary program:=${quote(program)}`;
  const grouped = split === null ? '' : `by (${group}) `;
  switch (way) {
    case 'sum':
      return `${filter} | stats by (${by}) sum(${field}) ${field}`;
    case 'average':
      return `${filter} | stats by (${by}) avg(${field}) mean`;
    case 'percentiles':
      return `${filter} | stats by (${by}) quantile(0.5, ${field}) p50, quantile(0.9, ${field}) p90, quantile(0.99, ${field}) p99`;
    case 'moving':
      return `${filter} | stats by (${by}) sum(${field}) ${field} | sort by (_time) | running_stats ${grouped}moving_avg(${field}, 1h) mean`;
    case 'derivative':
      return `${filter} | stats by (${by}) sum(${field}) ${field} | sort by (_time) | running_stats ${grouped}derivative(${field}) per_second`;
  }
}
