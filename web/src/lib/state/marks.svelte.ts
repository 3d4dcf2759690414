// What is marked on the time axis of lines: what alerts did, and what people wrote down.

import { isAbort } from '../api/call';
import { AlertHistory } from './alerts.svelte';
import type { TimeMark } from '../chart/series';
import { marksOf } from '../events/alerts';
import { annotationMarks } from '../events/annotations';
import type { Span } from '../base/time';

/** Changes of alerts that are marked; the newest ones. */
const CHANGES_MAX = 200;

export class Marks {
  #alerts = new AlertHistory();
  #annotations = $state.raw<readonly TimeMark[]>([]);
  #controller: AbortController | null = null;
  all: readonly TimeMark[] = $derived([...marksOf(this.#alerts.changes), ...this.#annotations]);

  /** Without marks the chart is as good, so a failure is not told. */
  async load(span: Span): Promise<void> {
    this.#controller?.abort();
    const controller = new AbortController();
    this.#controller = controller;
    void this.#alerts.load(span, CHANGES_MAX);
    try {
      this.#annotations = await annotationMarks(span, { signal: controller.signal });
    } catch (error) {
      if (!isAbort(error)) this.#annotations = [];
    }
  }

  leave(): void {
    this.#alerts.leave();
    this.#controller?.abort();
  }
}
