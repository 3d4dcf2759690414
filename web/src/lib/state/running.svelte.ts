// The queries of this page that are in the server's queue right now: their progress, and a way to cancel them.
//
// The id of a query is in a header, so it is known only once its answer begins. Until then the queue is searched for an
// entry of the same kind and text that started at about this time, so that a query without rows so far can be shown and
// cancelled too.

import type { CallOptions } from '../api/call';
import { cancelQuery, queue, type QueueEntry } from '../api/queue';
import { timeToMs } from '../base/time';

const POLL_MS = 500;
/** The clocks of page and server may differ by this much when an entry is recognised by its start time. */
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
  /** 0 to 1: the least progress of the running queries; null if none is known. */
  progress = $state<number | null>(null);
  bytesScanned = $state(0);
  linesScanned = $state(0);
  waiting = $state(false);
  startedMs = $state(0);
  #polling = false;

  get active(): boolean {
    return this.list.length > 0;
  }

  /** Runs a call as one of the running queries. The caller decides whether others are stopped first. */
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

  /** Closes all connections without cancelling in the queue: for a run that the next one replaces. */
  abandon(): void {
    const entries = this.list;
    this.list = [];
    for (const entry of entries) entry.controller.abort();
  }

  /**
   * The action of the Cancel button: closes the connections first (a browser has few of them per server, and cancelling
   * needs one), then tells the server.
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
        // Progress is optional; the query itself reports that the server cannot be reached.
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
