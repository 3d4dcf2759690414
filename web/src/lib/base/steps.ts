// The widths of histogram buckets: few round values, chosen so that a chart has about 60 to 120 bars.

import type { Span } from './time';

const MS = 1;
const S = 1000 * MS;
const M = 60 * S;
const H = 60 * M;
const D = 24 * H;

const STEPS_MS: readonly number[] = [
  1, 2, 5, 10, 20, 50, 100, 200, 500,
  S, 2 * S, 5 * S, 10 * S, 15 * S, 30 * S,
  M, 2 * M, 5 * M, 10 * M, 15 * M, 30 * M,
  H, 2 * H, 3 * H, 6 * H, 12 * H,
  D, 2 * D, 7 * D, 14 * D, 28 * D, 91 * D, 364 * D,
];

/** More bars would be too thin to point at. */
const BUCKETS_MAX = 120;

/** On a narrower screen 120 bars would be thinner than a finger can hit; half as many are drawn. */
const NARROW_PX = 700;

export function barsMax(): number {
  return typeof innerWidth === 'number' && innerWidth < NARROW_PX ? BUCKETS_MAX / 2 : BUCKETS_MAX;
}

/** The smallest round step that gives at most `max` buckets and is a multiple of `unitMs`. */
export function niceStep(span: Span, unitMs = 1, max = BUCKETS_MAX): number {
  const width = span.endMs - span.startMs;
  for (const step of STEPS_MS) {
    if (step % unitMs === 0 && width / step <= max) return step;
  }
  return STEPS_MS[STEPS_MS.length - 1] as number;
}

/** The form the API takes: `500ms`, `10s`. */
export function stepParam(stepMs: number): string {
  return stepMs % 1000 === 0 ? `${stepMs / 1000}s` : `${stepMs}ms`;
}

/** Evenly spaced buckets that cover a span; the first and last may extend beyond it. */
export interface Buckets {
  firstMs: number;
  stepMs: number;
  count: number;
}

/** Limits the buckets, so that an answer with absurd times does not make the page draw forever; later ones are left out. */
const BUCKETS_DRAWN_MAX = 2000;

export function bucketsOf(span: Span, stepMs: number): Buckets {
  const firstMs = Math.floor(span.startMs / stepMs) * stepMs;
  const count = Math.max(1, Math.ceil((span.endMs - firstMs) / stepMs));
  return { firstMs, stepMs, count: Math.min(count, BUCKETS_DRAWN_MAX) };
}

export function bucketIndex(buckets: Buckets, ms: number): number {
  return Math.floor((ms - buckets.firstMs) / buckets.stepMs);
}

/** The time span of buckets `from` to `to`, both inclusive. */
export function bucketSpan(buckets: Buckets, from: number, to: number): Span {
  return {
    startMs: buckets.firstMs + Math.min(from, to) * buckets.stepMs,
    endMs: buckets.firstMs + (Math.max(from, to) + 1) * buckets.stepMs,
  };
}

/** Why a bar does not cover its whole bucket, and the part that was counted. */
export interface BucketPart extends Span {
  /** `filling`: the time of the bucket is not over; `cut`: the range begins or ends inside it. */
  kind: 'filling' | 'cut';
}

/** Null for a bucket that was counted as a whole. `counted` is the requested span, `nowMs` the time of the request. */
export function partOf(whole: Span, counted: Span, nowMs: number): BucketPart | null {
  const startMs = Math.max(whole.startMs, counted.startMs);
  const endMs = Math.max(startMs, Math.min(whole.endMs, counted.endMs, nowMs));
  if (startMs === whole.startMs && endMs === whole.endMs) return null;
  // A bucket entirely in the future has only lines with wrong clocks; it counts as filling too.
  return { kind: nowMs < Math.min(whole.endMs, counted.endMs + 1) ? 'filling' : 'cut', startMs, endMs };
}

/** The part of a span that is inside another. */
export function cutSpan({ startMs, endMs }: Span, within: Span): Span {
  return { startMs: Math.max(startMs, within.startMs), endMs: Math.min(endMs, Math.max(within.endMs, startMs + 1)) };
}

/**
 * Round times for axis labels, at most `max` of them, and their distance. `offsetAt` is what the clocks of the time zone
 * are ahead of UTC at an instant.
 */
export function axisTicks(buckets: Buckets, max: number, offsetAt: (ms: number) => number): { at: number[]; spacingMs: number } {
  const startMs = buckets.firstMs;
  const endMs = startMs + buckets.count * buckets.stepMs;
  const step = STEPS_MS.find((candidate) => (endMs - startMs) / candidate <= Math.max(1, max)) ?? 364 * D;
  const ticks: number[] = [];
  const offsetMs = offsetAt(startMs);
  for (let local = Math.ceil((startMs + offsetMs) / step) * step; ; local += step) {
    // Where daylight saving begins or ends, days begin an hour sooner or later; hours and minutes go on as they did.
    const tick = local - (step > H ? offsetAt(local - offsetAt(local - offsetMs)) : offsetMs);
    if (tick >= endMs) break;
    if (tick >= startMs) ticks.push(tick);
  }
  return { at: ticks, spacingMs: step };
}

/** The format of an axis label, given the distance between two ticks. */
export function tickText(date: string, time: string, ms: number, spacingMs: number): string {
  if (spacingMs >= D) return date.slice(5);
  if (spacingMs >= M) return time === '00:00:00' ? date.slice(5) : time.slice(0, 5);
  if (spacingMs >= S) return time;
  return `${time}.${String(((ms % 1000) + 1000) % 1000).padStart(3, '0')}`;
}
