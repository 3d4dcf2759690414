// The pipe of a query that makes its table: by which fields and steps it groups, and what its functions compute. Reads
// as far as it can; only the server decides whether a query is valid.

import { literal, quoteEnd, uncommented } from './logsqlScan.ts';
import { niceStep, stepParam } from '../base/steps.ts';
import { parseDuration, type Span } from '../base/time.ts';

/** One entry of `by (…)`. */
export interface Key {
  /** As it is written. */
  text: string;
  name: string;
  /** As written behind the colon, `5m` or `100`; null without one. */
  step: string | null;
}

/** One function of `stats`. */
export interface StatsFunction {
  /** The name of its column. */
  name: string;
  fn: string;
  /** The last argument that is a field; null if the function has none. */
  field: string | null;
  /** The filter of its `if (…)`. */
  filter: string | null;
}

export interface StatsPipe {
  /** `top`, `uniq` and `field_values` group too, without functions. */
  pipe: 'stats' | 'top' | 'uniq';
  keys: Key[];
  functions: StatsFunction[];
  /** The functions as they are written. */
  functionsText: string;
  /** The text of the query before the pipe, without the `|`. */
  before: string;
  /** The text behind the pipe, with its `|`, or empty. */
  behind: string;
  /** How many pipes of this kind the query has; results of several are no groups of lines. */
  count: number;
}

/** The parts of a text between separators that are outside of quotes and brackets. */
export function splitOutside(text: string, separator: string): { text: string; from: number }[] {
  const parts: { text: string; from: number }[] = [];
  let depth = 0;
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    const char = text[at] as string;
    if (char === '"' || char === "'" || char === '`') at = quoteEnd(text, at);
    else if (/[([{]/.test(char)) depth++;
    else if (/[)\]}]/.test(char)) depth = Math.max(0, depth - 1);
    else if (char === separator && depth === 0) {
      parts.push({ text: text.slice(from, at), from });
      from = at + 1;
    }
  }
  parts.push({ text: text.slice(from), from });
  return parts;
}

/** The index of the bracket that closes the one at `open`, or the end of the text. */
function closing(text: string, open: number): number {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    const char = text[at] as string;
    if (char === '"' || char === "'" || char === '`') at = quoteEnd(text, at);
    else if (char === '(') depth++;
    else if (char === ')' && --depth === 0) return at;
  }
  return text.length;
}

const FUNCTION = /^(count|count_empty|count_uniq|count_uniq_hash|sum|avg|stddev|sum_len|min|max|quantile|median|sketch|sketch_quantile|histogram|range|rate|rate_sum|any|values|uniq_values|row_any|row_min|row_max|field_min|field_max|json_values)\s*\(/i;

function nameOf(text: string): string {
  return literal(text.trim()) ?? text.trim();
}

function readKeys(list: string): Key[] {
  return splitOutside(list, ',')
    .map(({ text }) => text.trim())
    .filter((text) => text !== '')
    .map((text) => {
      const [name, step] = splitOutside(text, ':').map((part) => part.text.trim());
      return { text, name: nameOf(name ?? ''), step: step?.split(/\s+/)[0] ?? null };
    });
}

function readFunction(text: string): StatsFunction | null {
  const trimmed = text.trim();
  const begin = FUNCTION.exec(trimmed);
  if (!begin) return null;
  const fn = (begin[1] as string).toLowerCase();
  const end = closing(trimmed, begin[0].length - 1);
  const args = splitOutside(trimmed.slice(begin[0].length, end), ',').map((part) => part.text.trim());
  const fields = args.filter((arg) => arg !== '' && arg !== '*' && !/^[\d.]+$/.test(arg)).map(nameOf);
  let rest = trimmed.slice(end + 1).trim().replace(/^limit\s+\d+\s*/i, '');
  let filter: string | null = null;
  if (/^if\s*\(/i.test(rest)) {
    const open = rest.indexOf('(');
    const close = closing(rest, open);
    filter = rest.slice(open + 1, close).trim();
    rest = rest.slice(close + 1).trim();
  }
  const name = rest.replace(/^as\s+/i, '').trim();
  return { name: name === '' ? unnamed(trimmed) : nameOf(name), fn, field: fields[fields.length - 1] ?? null, filter };
}

/** What the server calls a function without a name: as it is written, `count()` as `count(*)`. */
function unnamed(text: string): string {
  return text.replace(/\(\s*\)/, '(*)');
}

function readPipe(text: string): Pick<StatsPipe, 'pipe' | 'keys' | 'functions' | 'functionsText'> | null {
  let rest = text.trim();
  const grouping = /^(top|uniq)\b\s*\d*\s*(?:by\s*)?\(/i.exec(rest);
  if (grouping) {
    const open = grouping[0].length - 1;
    const pipe = (grouping[1] as string).toLowerCase() as 'top' | 'uniq';
    return { pipe, keys: readKeys(rest.slice(open + 1, closing(rest, open))), functions: [], functionsText: '' };
  }
  const named = /^stats\b\s*/i.exec(rest);
  if (named) rest = rest.slice(named[0].length);
  let keys: Key[] = [];
  const by = /^by\s*\(/i.exec(rest) ?? (named ? /^\(/.exec(rest) : null);
  if (by) {
    const open = by[0].length - 1;
    const close = closing(rest, open);
    keys = readKeys(rest.slice(open + 1, close));
    rest = rest.slice(close + 1).trim();
  }
  const functions = splitOutside(rest, ',').map((part) => readFunction(part.text));
  // If `stats` is left out, only a known function begins this pipe.
  if (!named && functions.some((one) => one === null)) return null;
  if (!named && !by && functions.length === 0) return null;
  return { pipe: 'stats', keys, functions: functions.filter((one) => one !== null), functionsText: rest.trim() };
}

/** The last pipe that groups rows; null if no pipe does. */
export function statsOf(written: string): StatsPipe | null {
  const query = uncommented(written);
  const parts = splitOutside(query, '|');
  let found: StatsPipe | null = null;
  let count = 0;
  for (const part of parts.slice(1)) {
    const pipe = readPipe(part.text);
    if (!pipe) continue;
    count++;
    const end = part.from + part.text.length;
    found = { ...pipe, before: query.slice(0, part.from - 1).trim(), behind: query.slice(end).trim(), count };
  }
  return found;
}

/** How a query groups and what it computes, whichever lines it does that for; empty if it makes no table of groups. */
export function groupingOf(query: string): string {
  const pipe = statsOf(query);
  return pipe ? JSON.stringify([pipe.pipe, pipe.keys.map((key) => key.name), pipe.functionsText]) : '';
}

const NAMED_STEPS: Record<string, string> = { nanosecond: '1ms', microsecond: '1ms', millisecond: '1ms', second: '1s', minute: '1m', hour: '1h', day: '1d', week: '1w' };

/** The width of the buckets of time that a query groups by, in milliseconds; null if there are none of one width. */
export function timeStepMs(pipe: StatsPipe | null): number | null {
  const step = pipe?.keys.find((key) => key.name === '_time')?.step ?? null;
  if (step === null) return null;
  const ms = parseDuration(NAMED_STEPS[step] ?? step);
  return ms !== null && ms > 0 ? ms : null;
}

/** Pipes that choose and order rows of a table; of rows over time they would choose some buckets. */
const CHOOSES = /^(sort|order|first|last|limit|head|offset|skip|top)\b/i;

/** The query counted in buckets of time of this width; without pipes behind it that select some of its rows. */
export function withTimeStep(query: string, stepMs: number): string {
  const pipe = statsOf(query);
  if (pipe?.pipe !== 'stats') return query;
  const keys = pipe.keys.filter((key) => key.name !== '_time').map((key) => key.text);
  const behind = splitOutside(pipe.behind, '|')
    .map((part) => part.text.trim())
    .filter((text) => text !== '' && !CHOOSES.test(text));
  return [pipe.before, `stats by (${[`_time:${stepParam(stepMs)}`, ...keys].join(', ')}) ${pipe.functionsText}`, ...behind].join(' | ');
}

/** A chart over time has about as many points as fit next to each other. */
const POINTS_MAX = 120;

/**
 * The query that is sent for a chart. `step` is the chosen width of a bucket, `auto` for one that fits the span; null
 * leaves the query as it is, unless a chart over time is wanted from one that does not group by time.
 */
export function queryFor(query: string, step: string | null, overTime: boolean, span: Span): string {
  const pipe = statsOf(query);
  if (pipe?.pipe !== 'stats') return query;
  const hasTime = pipe.keys.some((key) => key.name === '_time');
  if (!hasTime && !overTime) return query;
  if (hasTime && step === null) return query;
  const auto = niceStep(span, 1, POINTS_MAX);
  const chosen = step === null || step === 'auto' ? auto : (parseDuration(step) ?? auto);
  // A step chosen for an hour would make too many buckets of a month.
  return withTimeStep(query, (span.endMs - span.startMs) / chosen > BUCKETS_MAX ? auto : chosen);
}

/** More buckets than this are not asked for. */
const BUCKETS_MAX = 3000;
