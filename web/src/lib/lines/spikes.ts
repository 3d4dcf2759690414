// Finds what stands out in a summary: runs of buckets in which a bad series (severe level, 5xx) is far above its
// median.
//
// The median over the range is used so that the spike itself does not raise the baseline. This is a hint for the
// reader, not an alarm: it considers only the data on the screen.

import type { Summary } from '../api/summary';
import { isSevere, levelOf } from '../base/levels';

export interface Spike {
  type: string;
  /** The field whose value spikes: `status` or `level`. */
  field: string;
  value: string;
  /** First and last bucket, both inclusive. */
  from: number;
  to: number;
  count: number;
  /** Median per bucket over the range. */
  usual: number;
  /** The highest bucket. */
  peak: number;
}

/** Fewer than this in a bucket is not a spike, whatever the median is. */
const PEAK_MIN = 8;
/** A spike is at least this many times the median. */
const FACTOR = 3;
/** Random counts vary by about their square root; a spike is at least this many times that above the median. */
const DEVIATIONS = 5;
/** Quiet buckets that a spike may contain. */
const GAP_BUCKETS = 2;
/** Limit of the list, which is a hint; the most severe ones are kept. */
const SPIKES_MAX = 6;

/** `lines` says in which buckets there were lines at all: buckets before the first line do not count for the median. */
export function spikesOf(type: string, field: string, value: string, values: readonly number[], lines: readonly number[]): Spike[] {
  const active = values.filter((_, bucket) => (lines[bucket] ?? 0) > 0);
  const usual = median(active);
  const threshold = Math.max(PEAK_MIN, FACTOR * usual, usual + DEVIATIONS * Math.sqrt(usual + 1));
  const spikes: Spike[] = [];
  values.forEach((count, bucket) => {
    if (count < threshold) return;
    const last = spikes[spikes.length - 1];
    if (last && bucket - last.to <= GAP_BUCKETS + 1) {
      last.to = bucket;
      last.peak = Math.max(last.peak, count);
    } else {
      spikes.push({ type, field, value, from: bucket, to: bucket, count: 0, usual, peak: count });
    }
  });
  for (const spike of spikes) {
    spike.count = values.slice(spike.from, spike.to + 1).reduce((sum, count) => sum + count, 0);
  }
  // A level that is high during a third of the range is a state, not a spike.
  return spikes.filter((spike) => spike.to - spike.from + 1 <= Math.max(3, active.length / 3));
}

export function worstSpikes(summary: Pick<Summary, 'type' | 'lines' | 'series'>): Spike[] {
  const { type, lines, series } = summary;
  const found: Spike[] = [];
  for (const [code, values] of Object.entries(series['status'] ?? {})) {
    if (/^5\d\d$/.test(code)) found.push(...spikesOf(type, 'status', code, values, lines));
  }
  // The level of access logs is derived from the status, so the status says more.
  if (found.length === 0) {
    for (const [level, values] of Object.entries(series['level'] ?? {})) {
      if (isSevere(levelOf(level))) found.push(...spikesOf(type, 'level', level, values, lines));
    }
  }
  return rank(found);
}

/** How far a spike is above the median. */
function weight(spike: Spike): number {
  return spike.count / (spike.usual * (spike.to - spike.from + 1) + 1);
}

/**
 * The most severe spikes, sorted by time, the newest first, so that simultaneous ones are adjacent. One incident often
 * shows in several logs, and one of them has the cause.
 */
export function rank(spikes: readonly Spike[]): Spike[] {
  const worst = [...spikes].sort((a, b) => weight(b) - weight(a)).slice(0, SPIKES_MAX);
  const groups: Spike[][] = [];
  for (const spike of worst.sort((a, b) => b.to - a.to)) {
    const group = groups[groups.length - 1];
    const groupFrom = group ? Math.min(...group.map((one) => one.from)) : Infinity;
    if (group && spike.to >= groupFrom - GAP_BUCKETS) group.push(spike);
    else groups.push([spike]);
  }
  return groups.flatMap((group) => group.sort((a, b) => b.count - a.count));
}

function median(values: readonly number[]): number {
  if (values.length === 0) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] as number) : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}
