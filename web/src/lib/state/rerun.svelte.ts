// A rerun of a program: follows its entry in the queue until that has ended.

import { isAbort } from '../api/call';
import { cancelQuery, queue, type QueueEntry } from '../api/queue';

const POLL_MS = 700;
/** An entry that the queue does not list for so many polls has ended, and was removed. */
const MISSED_MAX = 5;

export class Rerun {
  id = $state<string | null>(null);
  entry = $state.raw<QueueEntry | null>(null);
  /** Of the last poll. */
  error = $state('');
  ended = $state(false);
  #controller: AbortController | null = null;

  get active(): boolean {
    return this.id !== null && !this.ended;
  }

  /** Resolves when the rerun has ended, or is no longer followed. */
  async follow(id: string): Promise<void> {
    this.leave();
    const controller = new AbortController();
    this.#controller = controller;
    this.id = id;
    this.entry = null;
    this.ended = false;
    let missed = 0;
    while (!controller.signal.aborted) {
      try {
        const { queries } = await queue({ signal: controller.signal });
        const entry = queries.find((one) => one.id === id);
        missed = entry ? 0 : missed + 1;
        if (entry) this.entry = entry;
        this.error = '';
        this.ended = missed >= MISSED_MAX || (entry !== undefined && !['waiting', 'running', 'paused', 'interrupted'].includes(entry.state));
        if (this.ended) return;
      } catch (error) {
        if (isAbort(error)) return;
        this.error = error instanceof Error ? error.message : String(error);
      }
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  async cancel(): Promise<void> {
    if (this.id !== null) await cancelQuery(this.id);
  }

  leave(): void {
    this.#controller?.abort();
    this.#controller = null;
    this.id = null;
    this.entry = null;
    this.ended = false;
    this.error = '';
  }
}
