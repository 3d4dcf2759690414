// Live tail: lines as they arrive, newest on top.
//
// Bounded: only the last 1,000 lines are kept on the page; older ones are still in the store. The page is updated at
// most four times a second, so that a flood of lines does not freeze the browser.

import { ApiError, isAbort, isCancelled } from '../api/call';
import { tailLines } from '../api/queries';
import { noteOf, type Row } from '../base/jsonl';
import { toApiError } from './lines.svelte';

export const TAIL_ROWS_MAX = 1000;
const FLUSH_MS = 250;
const RECONNECT_MS = [500, 1000, 2000, 5000];
/** A new connection begins so much before the last line of the one before; lines that are there already are left out. */
const OVERLAP_S = 5;
/** The server sends something every five seconds: a connection that is silent for so long is dead. */
const SILENT_MS = 30_000;
/** The server begins a tail at most an hour in the past. */
const GAP_S_MAX = 3600;

export class Tail {
  rows = $state.raw<Row[]>([]);
  paused = $state(false);
  /** Paused only for as long as somebody reads: a line is open, or the newest lines are scrolled out of view. */
  reading = $state(false);
  /** Lines that arrived during the pause and will be shown after it. */
  held = $state(0);
  received = $state(0);
  /** Lines that the server skipped because this page was too slow. */
  skipped = $state(0);
  /** Messages of a cluster's log that the server missed while a partition changed its owner. */
  missed = $state(0);
  /** A connection was away for so long that lines which arrived meanwhile are not shown. */
  hasGap = $state(false);
  connected = $state(false);
  error = $state.raw<ApiError | null>(null);
  #pending: Row[] = [];
  #controller: AbortController | null = null;
  #flush: ReturnType<typeof setTimeout> | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  /** When the server sent something last, by this clock; null before the first connection. */
  #heardMs: number | null = null;

  /** The tail was cancelled in the queue. */
  get cancelled(): boolean {
    return isCancelled(this.error);
  }

  /** Ended for good: only a new start helps. */
  get stopped(): boolean {
    return !this.connected && (this.cancelled || this.error?.status === 400 || this.error?.status === 200);
  }

  start(query: string): void {
    this.stop();
    this.rows = [];
    this.received = 0;
    this.skipped = 0;
    this.missed = 0;
    this.hasGap = false;
    this.#heardMs = null;
    this.held = 0;
    this.paused = false;
    this.reading = false;
    this.error = null;
    this.#pending = [];
    const controller = new AbortController();
    this.#controller = controller;
    void this.#follow(query, controller, 0);
  }

  stop(): void {
    this.#controller?.abort();
    this.#controller = null;
    clearTimeout(this.#flush);
    clearTimeout(this.#retry);
    this.#flush = undefined;
    this.connected = false;
  }

  setPaused(paused: boolean): void {
    this.paused = paused;
    this.reading = false;
    if (!paused) this.#show();
  }

  /** Lines stay where they are while they are read, and go on afterwards; a pause by the button stays. */
  setReading(reading: boolean): void {
    if (reading === this.reading || (reading && this.paused)) return;
    this.setPaused(reading);
    this.reading = reading;
  }

  clear(): void {
    this.rows = [];
    this.#pending = [];
    this.held = 0;
  }

  async #follow(query: string, controller: AbortController, attempt: number): Promise<void> {
    let tries = attempt;
    // What arrived while there was no connection is asked for again.
    const awayS = this.#heardMs === null ? null : Math.ceil(Math.max(0, Date.now() - this.#heardMs) / 1000);
    const connection = new AbortController();
    const end = (): void => connection.abort();
    let silence: ReturnType<typeof setTimeout> | undefined;
    const watch = (): void => {
      clearTimeout(silence);
      silence = setTimeout(end, SILENT_MS);
    };
    controller.signal.addEventListener('abort', end);
    try {
      await tailLines(
        query,
        awayS === null ? null : Math.min(GAP_S_MAX, awayS + OVERLAP_S),
        (rows) => this.#take(rows),
        () => {
          watch();
          this.connected = true;
          this.hasGap ||= awayS !== null && awayS > GAP_S_MAX;
          this.#heardMs ??= Date.now();
          this.error = null;
          tries = 0;
        },
        () => {
          watch();
          this.#heardMs = Date.now();
        },
        { signal: connection.signal },
      );
    } catch (error) {
      if (controller.signal.aborted) return;
      if (!isAbort(error)) this.error = toApiError(error);
      // A wrong query stays wrong, and a cancelled one was ended on purpose; a server that restarts becomes available
      // again.
      if (this.error?.status === 400 || this.cancelled) {
        this.connected = false;
        return;
      }
    } finally {
      clearTimeout(silence);
      controller.signal.removeEventListener('abort', end);
    }
    this.connected = false;
    if (controller.signal.aborted) return;
    const wait = RECONNECT_MS[Math.min(tries, RECONNECT_MS.length - 1)] as number;
    this.#retry = setTimeout(() => void this.#follow(query, controller, tries + 1), wait);
  }

  #take(rows: Row[]): void {
    for (const row of rows) {
      const { skipped, missed, error } = noteOf(row);
      this.missed += missed ?? 0;
      if (skipped !== undefined) this.skipped += skipped;
      else if (error !== undefined) {
        // It was cancelled in the queue, or a limit ended it: restarting it automatically would defy that.
        this.error = new ApiError(error, 200);
        this.stop();
      } else {
        this.#pending.push(row);
        this.received++;
      }
    }
    if (this.#pending.length > TAIL_ROWS_MAX) this.#pending = this.#pending.slice(-TAIL_ROWS_MAX);
    if (this.paused) this.held = this.#pending.length;
    else this.#flush ??= setTimeout(() => this.#show(), FLUSH_MS);
  }

  #show(): void {
    clearTimeout(this.#flush);
    this.#flush = undefined;
    if (this.paused || this.#pending.length === 0) return;
    // After a reconnect the lines of the last seconds may be sent again, also during a pause.
    const known = new Set(this.rows.map((row) => row['_line_id']));
    const fresh = this.#pending.filter((row) => {
      const id = row['_line_id'];
      if (id !== undefined && known.has(id)) return false;
      known.add(id);
      return true;
    });
    this.rows = [...fresh.reverse(), ...this.rows].slice(0, TAIL_ROWS_MAX);
    this.#pending = [];
    this.held = 0;
  }
}
