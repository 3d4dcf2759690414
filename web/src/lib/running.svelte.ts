// The queries this page has in the server's queue right now: their progress and a way to cancel them.
//
// A query's id comes in a header, thus only when its answer begins. Until then the queue is searched for an entry of
// the same kind and text that started about now, so that also a query that has not found anything yet can be seen and
// cancelled.

import { cancelQuery, queue, type CallOptions, type QueueEntry } from './api';
import { timeToMs } from './time';

const POLL_MS = 500;
/** Clocks of page and server may differ by this much when an entry is recognised by its start. */
const START_SLACK_MS = 120_000;

interface Running {
  kind: string;
  query: string;
  startedMs: number;
  id: string | null;
  controller: AbortController;
}

export class RunningQueries {
  list = $state.raw<Running[]>([]);
  /** 0 to 1: the least of the running ones; null when nothing is known. */
  progress = $state<number | null>(null);
  bytesScanned = $state(0);
  linesScanned = $state(0);
  waiting = $state(false);
  startedMs = $state(0);
  #polling = false;

  get active(): boolean {
    return this.list.length > 0;
  }

  /** Runs a call as one of the running queries. Starting nothing new is up to the caller. */
  async track<T>(kind: string, query: string, run: (options: CallOptions) => Promise<T>): Promise<T> {
    const entry: Running = { kind, query, startedMs: Date.now(), id: null, controller: new AbortController() };
    if (this.list.length === 0) this.#reset(entry.startedMs);
    this.list = [...this.list, entry];
    void this.#watch();
    try {
      return await run({ signal: entry.controller.signal, onid: (id) => (entry.id = id) });
    } finally {
      this.list = this.list.filter((other) => other !== entry);
    }
  }

  /** Stops all without a word to the server beyond the closed connection: for a run that is replaced by the next. */
  abandon(): void {
    const entries = this.list;
    this.list = [];
    for (const entry of entries) entry.controller.abort();
  }

  /**
   * What the Cancel button does: lets go of the connections first (a browser has few of them for one server, and the
   * cancelling needs one), then tells the server.
   */
  async cancel(): Promise<void> {
    const entries = this.list;
    this.abandon();
    if (entries.some((entry) => entry.id === null)) this.#recognise((await queue()).queries, entries);
    await Promise.all(entries.filter((entry) => entry.id !== null).map((entry) => cancelQuery(entry.id as string)));
  }

  #reset(startedMs: number): void {
    this.progress = null;
    this.bytesScanned = 0;
    this.linesScanned = 0;
    this.waiting = false;
    this.startedMs = startedMs;
  }

  async #watch(): Promise<void> {
    if (this.#polling) return;
    this.#polling = true;
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      if (this.list.length === 0) break;
      try {
        this.#measure((await queue()).queries);
      } catch {
        // Progress is a comfort; that the server cannot be reached is said by the query itself.
      }
    }
    this.#polling = false;
  }

  #measure(entries: readonly QueueEntry[]): void {
    this.#recognise(entries);
    const ours = entries.filter((entry) => this.list.some((running) => running.id === entry.id));
    if (ours.length === 0) return;
    this.progress = Math.min(...ours.map((entry) => (entry.state === 'done' ? 1 : entry.progress)));
    this.bytesScanned = ours.reduce((sum, entry) => sum + entry.bytes_scanned, 0);
    this.linesScanned = ours.reduce((sum, entry) => sum + entry.lines_scanned, 0);
    this.waiting = ours.every((entry) => entry.state === 'waiting');
  }

  #recognise(entries: readonly QueueEntry[], list: readonly Running[] = this.list): void {
    const taken = new Set(list.map((running) => running.id));
    for (const running of list) {
      if (running.id !== null) continue;
      const match = entries.find(
        (entry) =>
          !taken.has(entry.id) &&
          (entry.state === 'running' || entry.state === 'waiting') &&
          entry.kind === running.kind &&
          isText(entry.query, running.query) &&
          timeToMs(entry.started) >= running.startedMs - START_SLACK_MS,
      );
      if (match) {
        running.id = match.id;
        taken.add(match.id);
      }
    }
  }
}

/** The queue lists only the beginning of a very long query. */
const LISTED_CHARS_MIN = 1000;

function isText(listed: string, query: string): boolean {
  return listed === query || (listed.length >= LISTED_CHARS_MIN && query.startsWith(listed));
}
