// What the watch of the server found.

import { standsOut, type Found, type StandsOut } from '../api/standsOut';
import { session } from './session.svelte';
import { serverStatus } from './status.svelte';

export class Watch {
  /** Null if the server told nothing: where it cannot be reached, or the caller does not see all lines. */
  answer = $state.raw<StandsOut | null>(null);
  /** The server was asked, and answered or failed. */
  isAsked = $state(false);
  /** When it was asked last, by the clock of the server. */
  askedMs = $state(0);
  readonly findings = $derived<Found[]>(this.answer?.findings ?? []);
  #controller: AbortController | null = null;

  async run(): Promise<void> {
    this.#controller?.abort();
    // It is told to those who see all lines.
    if (session.me?.restricted) {
      this.isAsked = true;
      return;
    }
    const controller = new AbortController();
    this.#controller = controller;
    const { signal } = controller;
    // This is only a hint: where there is none, the page looks for itself.
    const answer = await standsOut({ signal }).catch(() => null);
    if (signal.aborted) return;
    this.answer = answer;
    this.askedMs = serverStatus.nowMs();
    this.isAsked = true;
  }

  leave(): void {
    this.#controller?.abort();
  }
}
