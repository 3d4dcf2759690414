// The beginning of a message that repeats what other columns say: the time of the line, its host, its application.

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/** Programs write the time when they begin a line, syslog when it is sent. */
const SAME_MS = 2000;
/** Times without a zone may be of any; zones differ by quarters of an hour. */
const QUARTER_MS = 15 * 60_000;
const ZONE_MAX_MS = 14 * 3_600_000;

const ISO = /^(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|UTC|GMT|[+-]\d\d:?\d\d))?/;
const COMMON = /^(\d\d)\/([A-Z][a-z]{2})\/(\d{4}):(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?: ([+-]\d{4}))?/;
const SYSLOG = /^([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?/;

/** How many characters at the start of a message repeat its time, then its host and application. */
export function leadChars(message: string, timeMs: number, host: string, app: string): number {
  let at = timeLead(message, timeMs);
  for (const [name, ends] of [[host, /^[ :]\s*/], [app, /^(?:\[\d+\])?:\s+/]] as const) {
    if (name === '' || !message.startsWith(name, at)) continue;
    const end = ends.exec(message.slice(at + name.length));
    // The host alone is repeated only behind a time: a message may well begin with a word that is a host's name.
    if (end && (at > 0 || name === app)) at += name.length + end[0].length;
  }
  return at >= message.length ? 0 : at;
}

function timeLead(message: string, timeMs: number): number {
  const open = message.startsWith('[') ? 1 : 0;
  const text = message.slice(open, open + 40);
  const found = iso(text) ?? common(text) ?? syslog(text, timeMs);
  if (!found || Number.isNaN(timeMs)) return 0;
  const apart = Math.abs(found.ms - timeMs);
  const rest = apart % QUARTER_MS;
  const same = found.hasZone ? apart <= SAME_MS : apart <= ZONE_MAX_MS + SAME_MS && Math.min(rest, QUARTER_MS - rest) <= SAME_MS;
  if (!same) return 0;
  const end = (open ? /^\]\s*/ : /^:?\s+/).exec(message.slice(open + found.chars));
  return end ? open + found.chars + end[0].length : 0;
}

interface Stamp {
  ms: number;
  chars: number;
  hasZone: boolean;
}

function stamp(parts: readonly number[], fraction: string | undefined, zone: string | undefined, chars: number): Stamp {
  const [year, month, day, hour, minute, second] = parts as [number, number, number, number, number, number];
  const ms = Date.UTC(year, month, day, hour, minute, second) + Math.floor(Number(`0.${fraction ?? 0}`) * 1000);
  const offset = /^([+-])(\d\d):?(\d\d)$/.exec(zone ?? '');
  const offsetMs = offset ? (Number(offset[2]) * 60 + Number(offset[3])) * 60_000 * (offset[1] === '-' ? -1 : 1) : 0;
  return { ms: ms - offsetMs, chars, hasZone: zone !== undefined };
}

function iso(text: string): Stamp | null {
  const found = ISO.exec(text);
  if (!found) return null;
  const [year, month, day, ...clock] = found.slice(1, 7).map(Number) as [number, number, number, ...number[]];
  return stamp([year, month - 1, day, ...clock], found[7], found[8], found[0].length);
}

function common(text: string): Stamp | null {
  const found = COMMON.exec(text);
  if (!found) return null;
  const month = MONTHS.indexOf((found[2] as string).toLowerCase());
  return stamp([Number(found[3]), month, Number(found[1]), ...found.slice(4, 7).map(Number)], found[7], found[8], found[0].length);
}

/** A time without a year: that of the line. */
function syslog(text: string, timeMs: number): Stamp | null {
  const found = SYSLOG.exec(text);
  if (!found || Number.isNaN(timeMs)) return null;
  const month = MONTHS.indexOf((found[1] as string).toLowerCase());
  return stamp([new Date(timeMs).getUTCFullYear(), month, ...found.slice(2, 6).map(Number)], found[6], undefined, found[0].length);
}
