// What the server found, as incidents: a finding with those that are most likely parts of it.

import type { Found, StandsOut } from '../api/standsOut';
import { formatInstant, type Span } from '../base/time';

export interface Incident {
  found: Found;
  parts: Found[];
}

export const INCIDENTS_MAX = 8;
/** With less than a day of history, no hour of the day is known. */
const HISTORY_MIN_S = 86_400;
/** Intervals that are shown before it began, so that the change is seen. */
const BEFORE = 10;
/** Intervals that are shown at most. */
const SHOWN_MAX = 120;

/** How long the server keeps a finding that is over. */
const KEPT_MS = 86_400_000;

/**
 * Why the page has to look for what stands out itself; null if the findings of the server are about all lines of the
 * range. `answer` is null if the server told nothing.
 */
export function whyOwnList(answer: StandsOut | null, span: Span, nowMs: number, restricts: boolean): string | null {
  if (restricts) return 'in the lines of this query, found by the page';
  if (answer === null || answer.state === 'off') return 'found by the page: the server does not watch the lines that you see';
  if (answer.state === 'learning') return 'found by the page: the server still learns what is usual';
  const since = Date.parse(answer.since ?? '');
  if (!Number.isFinite(since) || span.startMs < since || span.startMs < nowMs - KEPT_MS) return 'found by the page: the range begins before what the server knows';
  return null;
}

/** When it began and ended; what lasts ends now. */
function spanOf(found: Found, nowMs: number): Span {
  const startMs = Date.parse(found.since);
  const endMs = found.until === null ? nowMs : Date.parse(found.until);
  return { startMs, endMs: Math.max(startMs, endMs) };
}

/** The incidents of a range: those that last first, then the latest. */
export function incidentsOf(findings: readonly Found[], span: Span, nowMs: number): Incident[] {
  const isShown = (found: Found): boolean => {
    const { startMs, endMs } = spanOf(found, nowMs);
    return startMs <= span.endMs && endMs >= span.startMs;
  };
  const shown = findings.filter(isShown);
  const ids = new Set(shown.map((found) => found.id));
  const roots = shown.filter((found) => found.part_of === null || !ids.has(found.part_of));
  const incidents = roots.map((found) => ({ found, parts: shown.filter((part) => part.part_of === found.id) }));
  const rank = ({ found }: Incident): number => (found.until === null ? 1 : 0);
  return incidents.sort((a, b) => rank(b) - rank(a) || Date.parse(b.found.since) - Date.parse(a.found.since)).slice(0, INCIDENTS_MAX);
}

/** The range of its lines, with some time before. Of what is silent, there are lines in that time only. */
export function linesOfFound(found: Found, nowMs: number): Span {
  const intervalMs = found.interval_s * 1000;
  const { startMs, endMs } = spanOf(found, nowMs);
  return { startMs: startMs - BEFORE * intervalMs, endMs: Math.min(endMs + intervalMs, startMs + SHOWN_MAX * intervalMs) };
}

/** What to compare with the time before: its first intervals. */
export function changedOfFound(found: Found, nowMs: number): Span {
  const { startMs, endMs } = spanOf(found, nowMs);
  const intervalMs = found.interval_s * 1000;
  return { startMs, endMs: Math.max(startMs + intervalMs, Math.min(endMs, startMs + BEFORE * intervalMs)) };
}

export function hasShortHistory(found: Found): boolean {
  return found.history_s < HISTORY_MIN_S;
}

/** Whether there is more than usual. */
export function isMore(found: Found): boolean {
  return found.seen > found.expected;
}

/** A time as it is written beside another one: with its date if it is of another day. */
export function timeBeside(ms: number, besideMs: number, utc: boolean): string {
  const [text, beside] = [formatInstant(ms, utc), formatInstant(besideMs, utc)];
  return text.slice(0, 10) === beside.slice(0, 10) ? text.slice(11) : text;
}
