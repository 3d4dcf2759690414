// The programs and sinks of the server, polled while the view *Programs* is open.

import { ApiError, isAbort } from '../api/call';
import { toApiError } from './lines.svelte';
import { ProgramRates, type Rate } from '../programs/programs';
import { programs, sinks, type Program, type ProgramList, type Sink } from '../api/programs';

const POLL_MS = 2000;

class ProgramsPoll {
  latest = $state.raw<ProgramList | null>(null);
  sinks = $state.raw<Sink[]>([]);
  error = $state.raw<ApiError | null>(null);
  rates = $state.raw<ReadonlyMap<string, Rate>>(new Map());
  #measured = new ProgramRates();
  #polls = 0;

  /** Polls until the returned function is called. A hidden page does not poll. */
  start(): () => void {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const controller = new AbortController();
    const tick = async (): Promise<void> => {
      if (!document.hidden) await this.poll(controller.signal);
      if (!controller.signal.aborted) timer = setTimeout(tick, POLL_MS);
    };
    void tick();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }

  async poll(signal?: AbortSignal): Promise<void> {
    const options = signal ? { signal } : {};
    const poll = ++this.#polls;
    try {
      // A server without sinks has programs all the same.
      const both = await Promise.all([programs(options), sinks(options).catch(() => [])]);
      // An answer is dropped if a later poll has begun meanwhile.
      if (poll !== this.#polls) return;
      [this.latest, this.sinks] = both;
      this.#measured.measure(both[0].programs, performance.now());
      this.rates = this.#measured.rates;
      this.error = null;
    } catch (error) {
      if (poll === this.#polls && !isAbort(error)) this.error = toApiError(error);
    }
  }

  /** The server is older than this page. */
  get isAbsent(): boolean {
    return this.error?.status === 404;
  }

  named(name: string): Program | null {
    return this.latest?.programs.find((one) => one.name === name) ?? null;
  }
}

export const programsPoll = new ProgramsPoll();
