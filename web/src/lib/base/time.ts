// Times and time ranges: parses what people type, formats what the server sends.
//
// A range is stored as it was chosen (relative, absolute or everything) and resolved to instants only when a query
// runs, so that a link with “last 15 minutes” stays relative. Instants are Unix milliseconds; only `_time` of a line
// needs nanoseconds (for paging), see `timeToNs`.

export type Range =
  | { kind: 'relative'; ms: number }
  | { kind: 'absolute'; startMs: number; endMs: number }
  | { kind: 'all' };

/** The instants of a range: start inclusive, end exclusive. */
export interface Span {
  startMs: number;
  endMs: number;
}

export const PRESETS: readonly { label: string; text: string }[] = [
  { label: 'Last 5 minutes', text: '5m' },
  { label: 'Last 15 minutes', text: '15m' },
  { label: 'Last hour', text: '1h' },
  { label: 'Last 6 hours', text: '6h' },
  { label: 'Last 24 hours', text: '24h' },
  { label: 'Last 7 days', text: '7d' },
  { label: 'Last 30 days', text: '30d' },
  { label: 'All time', text: 'all' },
];

/** The default range, an hour: long enough to see what led to an incident. */
export const DEFAULT_RANGE: Range = { kind: 'relative', ms: 60 * 60_000 };

const UNIT_MS: Record<string, number> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** No store has older lines: 292 years in nanoseconds are what a 64-bit number holds. */
const DURATION_MS_MAX = 200 * 365 * 86_400_000;

/** Parses `15m`, `1h30m`, `500ms`; null if it is not a duration, or longer than two centuries. */
export function parseDuration(text: string): number | null {
  const trimmed = text.trim();
  if (!/^(\d+(\.\d+)?(ms|[smhdw]))+$/.test(trimmed)) return null;
  let total = 0;
  for (const [, number, unit] of trimmed.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdw])/g)) {
    total += Number(number) * (UNIT_MS[unit as string] as number);
  }
  return total > DURATION_MS_MAX ? null : total;
}

/** The shortest exact form: 900000 → `15m`, 5400000 → `1h30m`. Below two days hours are used: people say `24h`. */
export function formatDuration(ms: number): string {
  if (ms === 86_400_000) return '24h';
  let rest = Math.round(ms);
  let text = '';
  for (const [unit, size] of [['d', 86_400_000], ['h', 3_600_000], ['m', 60_000], ['s', 1_000], ['ms', 1]] as const) {
    const count = Math.floor(rest / size);
    if (count > 0) text += `${count}${unit}`;
    rest -= count * size;
  }
  return text || '0s';
}

/**
 * Parses an instant as people type it: RFC 3339 (also shortened, also with a blank for the T; without a zone it is
 * local time, or UTC if `utc`), Unix seconds to nanoseconds, distinguished by size, `now`, `now-1h`, `-1h`, `1h`.
 */
export function parseInstant(text: string, nowMs: number, utc: boolean): number | null {
  const trimmed = text.trim();
  if (trimmed === 'now') return nowMs;
  const relative = /^(?:now)?(-?)(.+)$/.exec(trimmed);
  const ago = relative?.[2] ? parseDuration(relative[2]) : null;
  if (ago !== null) return nowMs - ago;

  if (/^\d{9,19}$/.test(trimmed)) {
    const digits = trimmed.length;
    if (digits <= 11) return Number(trimmed) * 1000;
    if (digits <= 14) return Number(trimmed);
    if (digits <= 17) return Math.floor(Number(trimmed) / 1e3);
    return Math.floor(Number(trimmed) / 1e6);
  }

  const form =
    /^(\d{4})-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?)?)? ?(Z|[+-]\d\d:?\d\d)?$/i.exec(trimmed);
  if (!form) return null;
  const [, year, month, day = '01', hour = '00', minute = '00', second = '00', fraction = '', zone] = form;
  const milli = Number((fraction + '000').slice(0, 3));
  const parts = [Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second), milli] as const;
  // Day 0 of the next month is the last one of this month.
  const days = new Date(Date.UTC(parts[0], parts[1] + 1, 0)).getUTCDate();
  if (parts[1] < 0 || parts[1] > 11 || parts[2] < 1 || parts[2] > days || parts[3] > 24 || parts[4] > 59 || parts[5] > 60) return null;
  if (!zone && !utc) return new Date(...parts).getTime();
  let offsetMinutes = 0;
  if (zone && zone.toUpperCase() !== 'Z') {
    const sign = zone.startsWith('-') ? -1 : 1;
    const digits = zone.slice(1).replace(':', '');
    offsetMinutes = sign * (Number(digits.slice(0, 2)) * 60 + Number(digits.slice(2)));
  }
  return Date.UTC(...parts) - offsetMinutes * 60_000;
}

/** Parses the two fields of the picker. A relative start with the end `now` gives a relative range. */
export function parseRange(from: string, to: string, nowMs: number, utc: boolean): Range | { error: string } {
  const start = parseInstant(from, nowMs, utc);
  if (start === null) return { error: `“${from}” is not a time. Try 2026-01-31 12:00, now-1h or Unix seconds.` };
  const end = to.trim() === '' ? nowMs : parseInstant(to, nowMs, utc);
  if (end === null) return { error: `“${to}” is not a time. Try 2026-01-31 12:00, now or Unix seconds.` };
  if (end <= start) return { error: 'The end must be after the start.' };
  const endIsNow = to.trim() === '' || to.trim() === 'now';
  const startIsRelative = parseDuration(from.trim().replace(/^now/, '').replace(/^-/, '')) !== null;
  if (endIsNow && startIsRelative) return { kind: 'relative', ms: nowMs - start };
  return { kind: 'absolute', startMs: start, endMs: end };
}

/**
 * How far ahead “all” goes where nobody tells what is stored: lines of wrong clocks are stored, too. Lines of later times
 * are found by a range that names these times.
 */
const ALL_AHEAD_MS = 10 * 365 * 86_400_000;

/**
 * Only the store knows what “all” covers; its oldest and newest line bound it. Who sees some of the lines only is not told
 * these bounds: then “all” begins with 1970.
 */
export function resolveRange(range: Range, nowMs: number, stored: Span | null): Span {
  switch (range.kind) {
    case 'relative':
      return { startMs: nowMs - range.ms, endMs: nowMs };
    case 'absolute':
      return { startMs: range.startMs, endMs: range.endMs };
    case 'all': {
      if (!stored) return { startMs: 0, endMs: nowMs + ALL_AHEAD_MS };
      const endMs = Math.max(stored.endMs + 1, stored.startMs + 1000);
      return { startMs: stored.startMs, endMs };
    }
  }
}

/** Doubles the span around its middle, but not beyond now if the span ends before it. */
export function zoomOut(span: Span, nowMs: number): Range {
  const width = span.endMs - span.startMs;
  let endMs = span.endMs + width / 2;
  if (span.endMs <= nowMs && endMs > nowMs) endMs = nowMs;
  return { kind: 'absolute', startMs: Math.floor(endMs - width * 2), endMs: Math.ceil(endMs) };
}

const two = (value: number): string => String(value).padStart(2, '0');

export interface ClockParts {
  date: string;
  time: string;
}

export function clockParts(ms: number, utc: boolean): ClockParts {
  const d = new Date(ms);
  if (Number.isNaN(d.getTime())) return { date: '–', time: '–' };
  return utc
    ? {
        date: `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())}`,
        time: `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}:${two(d.getUTCSeconds())}`,
      }
    : {
        date: `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`,
        time: `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`,
      };
}

/** `2026-01-31 12:00:00`, with milliseconds on request, or with 'auto' if they are not zero. */
export function formatInstant(ms: number, utc: boolean, millis: boolean | 'auto' = false): string {
  const { date, time } = clockParts(ms, utc);
  const milli = ((Math.floor(ms) % 1000) + 1000) % 1000;
  const shown = millis === true || (millis === 'auto' && milli !== 0);
  return `${date} ${time}${shown ? `.${String(milli).padStart(3, '0')}` : ''}`;
}

/**
 * The instant as text that [`parseInstant`] reads as the same instant: with the offset from UTC where the clock shows
 * the same time twice because daylight saving ends.
 */
export function editableInstant(ms: number, utc: boolean): string {
  const text = formatInstant(ms, utc, 'auto');
  if (parseInstant(text, ms, utc) === Math.floor(ms)) return text;
  return `${text}${zoneLabel(utc, ms).replace('UTC', '').replace('−', '-')}`;
}

export function formatSpan(span: Span, utc: boolean): string {
  const from = formatInstant(span.startMs, utc, 'auto');
  const to = formatInstant(span.endMs, utc, 'auto');
  return from.slice(0, 10) === to.slice(0, 10) ? `${from} – ${to.slice(11)}` : `${from} – ${to}`;
}

export function rangeLabel(range: Range, utc: boolean): string {
  if (range.kind === 'all') return 'All time';
  if (range.kind === 'absolute') return formatSpan(range, utc);
  const text = formatDuration(range.ms);
  return PRESETS.find((preset) => preset.text === text)?.label ?? `Last ${text}`;
}

export function zoneLabel(utc: boolean, atMs: number): string {
  if (utc) return 'UTC';
  const minutes = -new Date(atMs).getTimezoneOffset();
  const sign = minutes < 0 ? '−' : '+';
  return `UTC${sign}${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
}

/** The zone of a span; both zones if the clocks are set in it. */
export function zonesLabel(utc: boolean, { startMs, endMs }: Span): string {
  const [from, to] = [zoneLabel(utc, startMs), zoneLabel(utc, endMs)];
  return from === to ? from : `${from} to ${to}`;
}

/** Unix milliseconds of an RFC 3339 time of the server; NaN if it is not a time. */
export function timeToMs(text: string): number {
  return Date.parse(text.replace(/(\.\d{3})\d+/, '$1'));
}

/** Nanoseconds since 1970 of an RFC 3339 time of the server; null if it is not a time. */
export function timeToNs(text: string): bigint | null {
  const form = /^(.*?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(text);
  if (!form) return null;
  const seconds = Date.parse(`${form[1]}${form[3]}`);
  if (Number.isNaN(seconds)) return null;
  return BigInt(seconds) * 1_000_000n + BigInt(((form[2] ?? '') + '000000000').slice(0, 9));
}
