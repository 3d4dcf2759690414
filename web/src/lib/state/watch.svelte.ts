// What the watch of the server found.

import { standsOut, type Found } from '../api/standsOut';

export class Watch {
  findings = $state.raw<Found[]>([]);
  #controller: AbortController | null = null;

  /** Asks the server. It says nothing where the watch is off, or where the caller does not see all lines. */
  async run(): Promise<void> {
    this.#controller?.abort();
    const controller = new AbortController();
    this.#controller = controller;
    try {
      const answer = await standsOut({ signal: controller.signal });
      if (!controller.signal.aborted) this.findings = answer.findings;
    } catch {
      // This is only a hint, and the page has spikes of its own.
      if (!controller.signal.aborted) this.findings = [];
    }
  }

  leave(): void {
    this.#controller?.abort();
  }
}
