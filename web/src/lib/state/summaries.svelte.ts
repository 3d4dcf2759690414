// The summaries of all types, or of one, over a range.

import { ApiError, isAbort } from '../api/call';
import { summaryOf, summaryTypes, type Summary, type SummaryType } from '../api/summary';
import { toApiError } from './lines.svelte';
import { rank, worstSpikes, type Spike } from '../lines/spikes';
import { serverStatus } from './status.svelte';
import { barsMax, niceStep } from '../base/steps';
import { resolveRange, type Range, type Span } from '../base/time';

/** Limit of the types drawn at once; the others are one click away in the list. */
export const TYPES_DRAWN_MAX = 8;
/** Summaries have buckets of ten seconds; finer steps make no sense. */
const UNIT_MS = 10_000;
/** Charts that are requested at a time; more would take all of the browser's connections. */
const PARALLEL = 3;
const RETRY_MS = 1000;

export class Summaries {
  types = $state.raw<SummaryType[]>([]);
  byType = $state.raw<ReadonlyMap<string, Summary>>(new Map());
  span = $state.raw<Span | null>(null);
  /** The time when that span was requested, by the server's clock. */
  askedMs = $state(0);
  error = $state.raw<ApiError | null>(null);
  loading = $state(false);
  #run = 0;
  #controller: AbortController | null = null;
  #retry: ReturnType<typeof setTimeout> | undefined;

  spikes: Spike[] = $derived(rank([...this.byType.values()].flatMap((summary) => worstSpikes(summary))));

  async run(range: Range, only: string | null): Promise<void> {
    const run = ++this.#run;
    clearTimeout(this.#retry);
    this.#controller?.abort();
    const controller = new AbortController();
    this.#controller = controller;
    const { signal } = controller;
    this.loading = true;
    try {
      if (range.kind === 'all' && !serverStatus.latest) await serverStatus.poll();
      const askedMs = serverStatus.nowMs();
      const span = resolveRange(range, askedMs, serverStatus.stored());
      const types = [...(await summaryTypes(span, { signal }))].sort((a, b) => b.lines - a.lines);
      const wanted = only === null ? types.slice(0, TYPES_DRAWN_MAX).map((type) => type.type) : [only];
      const stepMs = niceStep(span, UNIT_MS, barsMax());
      const found = new Map<string, Summary>();
      const todo = [...wanted];
      const worker = async (): Promise<void> => {
        for (let type = todo.shift(); type !== undefined; type = todo.shift()) {
          found.set(type, await summaryOf(type, span, stepMs, { signal }));
        }
      };
      await Promise.all(Array.from({ length: PARALLEL }, worker));
      if (run !== this.#run) return;
      this.types = types;
      this.span = span;
      this.askedMs = askedMs;
      this.byType = new Map(wanted.flatMap((type) => (found.has(type) ? [[type, found.get(type) as Summary]] : [])));
      this.error = null;
    } catch (error) {
      if (run !== this.#run || isAbort(error)) return;
      this.error = toApiError(error);
      // A server that has just started asks to retry.
      if (this.error.status === 503) this.#retry = setTimeout(() => void this.run(range, only), RETRY_MS);
    } finally {
      if (run === this.#run) this.loading = false;
    }
  }

  leave(): void {
    this.#run++;
    clearTimeout(this.#retry);
    this.#controller?.abort();
  }
}
