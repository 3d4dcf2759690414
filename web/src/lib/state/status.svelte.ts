// The state of the server, polled every two seconds: rates are differences of its counters.

import { status as fetchStatus, type Status } from '../api/status';
import { timeToMs, type Span } from '../base/time';
import { session } from './session.svelte';

const POLL_MS = 2000;
/** Points of the small rate charts: three minutes. */
const HISTORY_MAX = 90;

interface Counters {
  lines: number;
  bytes: number;
}

export interface Rate {
  linesPerS: number;
  bytesPerS: number;
}

/** Why the server cannot work; one sentence that every view shows at the same position, and that no view contradicts. */
export interface Trouble {
  kind: 'unreachable' | 'starting' | 'refusing';
  text: string;
}

class StatusPoll {
  latest = $state.raw<Status | null>(null);
  error = $state<string | null>(null);
  /** Time of the server's last answer, by our clock; 0 before the first one. */
  answeredMs = $state(0);
  /** By source, and under `''` for all sources. */
  rates = $state.raw<Record<string, Rate>>({});
  /** Lines per second of every poll, oldest first, with the keys of `rates`. */
  history = $state.raw<Record<string, number[]>>({});
  #before: { at: number; started: string; counters: Record<string, Counters> } | null = null;
  /** The server's clock minus ours: ranges such as “last 15 minutes” refer to the server's clock. */
  #clockSkewMs = 0;

  /** Polls until the returned function is called. A hidden page does not poll. */
  start(): () => void {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let stopped = false;
    const tick = async (): Promise<void> => {
      if (!document.hidden) await this.poll();
      if (!stopped) timer = setTimeout(tick, POLL_MS);
    };
    const onvisible = (): void => {
      if (!document.hidden) void this.poll();
    };
    document.addEventListener('visibilitychange', onvisible);
    void tick();
    return () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener('visibilitychange', onvisible);
    };
  }

  async poll(): Promise<void> {
    // The state of the server is not shown to those that see only some of the lines.
    if (session.me?.restricted) return;
    try {
      const sent = Date.now();
      const answer = await fetchStatus();
      const now = timeToMs(answer.now);
      if (!Number.isNaN(now)) this.#clockSkewMs = now - (sent + Date.now()) / 2;
      this.#measure(answer, now);
      this.latest = answer;
      this.answeredMs = Date.now();
      this.error = null;
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    }
  }

  #measure(answer: Status, at: number): void {
    const counters: Record<string, Counters> = { '': { lines: 0, bytes: 0 } };
    for (const source of answer.ingest) {
      counters[source.source] = { lines: source.lines_received, bytes: source.bytes_received };
      (counters[''] as Counters).lines += source.lines_received;
      (counters[''] as Counters).bytes += source.bytes_received;
    }
    const all = answer.all_nodes;
    if (all) counters[''] = { lines: all.lines_received, bytes: all.bytes_received };
    // With another node in the sums, or one that was restarted, they are of something else.
    const started = answer.started + (all?.nodes.map((node) => ` ${node.node} ${node.started}`).join('') ?? '');
    const before = this.#before;
    const seconds = before ? (at - before.at) / 1000 : 0;
    if (before && before.started === started && seconds > 0.2) {
      const rates: Record<string, Rate> = {};
      const history: Record<string, number[]> = {};
      for (const [source, counter] of Object.entries(counters)) {
        const old = before.counters[source] ?? { lines: 0, bytes: 0 };
        rates[source] = {
          linesPerS: Math.max(0, counter.lines - old.lines) / seconds,
          bytesPerS: Math.max(0, counter.bytes - old.bytes) / seconds,
        };
        history[source] = [...(this.history[source] ?? []), (rates[source] as Rate).linesPerS].slice(-HISTORY_MAX);
      }
      this.rates = rates;
      this.history = history;
    }
    if (!before || before.started !== started || seconds > 0.2) {
      this.#before = { at, started, counters };
    }
  }

  /** The most severe first: of an unreachable server nothing else is known. */
  trouble(): Trouble | null {
    const status = this.latest;
    if (this.error !== null) return { kind: 'unreachable', text: this.error };
    if (status === null) return null;
    if (!status.ready) return { kind: 'starting', text: 'The server is starting and does not answer queries yet. Lines that arrive are kept.' };
    const state = status.store?.state ?? 'ok';
    if (state === 'ok') return null;
    const why = state === 'disk_full' ? `The disk is full: free space in ${status.data_dir}, or set a limit for retention.` : `The store is ${state}; the server’s log says why.`;
    return { kind: 'refusing', text: `New lines are refused. ${why}` };
  }

  /** Now, by the server's clock. */
  nowMs(): number {
    return Date.now() + this.#clockSkewMs;
  }

  /** From the oldest to the newest stored line. */
  stored(): Span | null {
    const store = this.latest?.all_nodes ?? this.latest?.store;
    if (!store?.oldest || !store.newest) return null;
    return { startMs: Math.floor(timeToMs(store.oldest)), endMs: Math.ceil(timeToMs(store.newest)) };
  }

  /** Lines that this node dropped. */
  dropped(): number {
    let sum = 0;
    for (const source of this.latest?.ingest ?? []) {
      for (const count of Object.values(source.dropped)) sum += count;
    }
    return sum;
  }

  /** Lines that all nodes dropped. */
  droppedByAll(): number {
    return this.latest?.all_nodes?.lines_dropped ?? this.dropped();
  }

  /** Lines that are held, by all nodes of a cluster; null if that is not known. */
  lines(): number | null {
    const status = this.latest;
    return status?.all_nodes ? status.all_nodes.lines : (status?.store?.lines ?? null);
  }

  /** What the numbers of a cluster lack, a sentence; empty if they are whole. */
  lacking(): string {
    const missing = this.latest?.all_nodes?.missing ?? [];
    return missing.map(({ node, error }) => `Without ${node}: ${error}.`).join(' ');
  }

  /** Used and usable space of the disk, without space that is reserved for others. Null if the system does not report it. */
  disk(): { used: number; free: number; own: number } | null {
    const store = this.latest?.store;
    if (!store || store.disk_free_bytes === null || store.disk_used_bytes === null) return null;
    return { used: store.disk_used_bytes, free: store.disk_free_bytes, own: Math.min(store.bytes_disk, store.disk_used_bytes) };
  }

  /** True if the server answers and has never stored a line. */
  isEmpty(): boolean {
    return this.trouble() === null && this.lines() === 0;
  }
}

export const serverStatus = new StatusPoll();
