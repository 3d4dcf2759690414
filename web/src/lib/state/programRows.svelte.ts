// The rows of a program over a range.

import { ApiError, isAbort } from '../api/call';
import { toApiError } from './lines.svelte';
import { rowsOf, type ProgramRow, type ProgramRows } from '../api/programs';
import { serverStatus } from './status.svelte';
import { resolveRange, timeToMs, type Range, type Span } from '../base/time';

/** This many answers are joined; further rows are not shown, and the page says so. */
const ANSWERS_MAX = 5;
const RETRY_MS = 1000;

export class RowsSearch {
  rows = $state.raw<ProgramRow[]>([]);
  /** Null until the first answer. */
  span = $state.raw<Span | null>(null);
  askedMs = $state(0);
  bucketMs = $state(1000);
  isCut = $state(false);
  error = $state.raw<ApiError | null>(null);
  loading = $state(false);
  #controller: AbortController | null = null;
  #retry: ReturnType<typeof setTimeout> | undefined;

  async run(name: string, range: Range): Promise<void> {
    this.leave();
    const controller = new AbortController();
    this.#controller = controller;
    const { signal } = controller;
    this.loading = true;
    try {
      if (range.kind === 'all' && !serverStatus.latest) await serverStatus.poll();
      const askedMs = serverStatus.nowMs();
      const span = resolveRange(range, askedMs, serverStatus.stored());
      const found = await allRows(name, span, signal);
      if (signal.aborted) return;
      this.rows = found.rows;
      this.isCut = found.is_cut;
      this.bucketMs = (found.bucket_s ?? 1) * 1000;
      this.span = span;
      this.askedMs = askedMs;
      this.error = null;
    } catch (error) {
      if (signal.aborted || isAbort(error)) return;
      this.error = toApiError(error);
      // A server that has just started asks to retry.
      if (this.error.status === 503) this.#retry = setTimeout(() => void this.run(name, range), RETRY_MS);
    } finally {
      if (this.#controller === controller) this.loading = false;
    }
  }

  leave(): void {
    clearTimeout(this.#retry);
    this.#controller?.abort();
    this.#controller = null;
    this.loading = false;
  }
}

/** Resumes a cut answer at its last bucket, whose rows may be incomplete. */
async function allRows(name: string, span: Span, signal: AbortSignal): Promise<ProgramRows> {
  let all = await rowsOf(name, span, { signal });
  for (let answers = 1; all.is_cut && answers < ANSWERS_MAX; answers++) {
    const last = all.rows[all.rows.length - 1]?.time;
    const startMs = last === undefined ? NaN : timeToMs(last);
    // A single bucket fills the answer.
    if (!(startMs > timeToMs(all.rows[0]?.time ?? '')) || startMs <= span.startMs) break;
    const next = await rowsOf(name, { startMs, endMs: span.endMs }, { signal });
    const lastOfNext = next.rows[next.rows.length - 1]?.time;
    all = { ...next, rows: [...all.rows.filter((row) => row.time !== last), ...next.rows] };
    if (lastOfNext === last) break;
  }
  return all;
}
