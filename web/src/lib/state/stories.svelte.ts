// Asks the server which differences are the same lines, and what explains numbers that moved.

import { queryFacets, queryLines } from '../api/queries';
import { isAbort } from '../api/call';
import type { Row } from '../base/jsonl';
import type { Span } from '../base/time';
import { differencesOf, keyOf, type Comparing, type Comparison, type Difference } from '../lines/differences';
import { causesOf, causesQuery, MARKS_MAX, overlapOf, overlapQuery, ownLines, storiesOf, toExplain, writersOf, type Explained, type Overlap } from '../lines/stories';

/** So long the differences wait for being grouped; then they are shown one by one until the answer comes. */
const PATIENCE_MS = 3_000;

export class Stories {
  /** Which lines are in common; null while that is not known, or if the server did not say it. */
  overlap = $state.raw<Overlap | null>(null);
  /** The differences may be shown: they are grouped, or that takes too long. */
  ready = $state(false);
  /** Why they could not be grouped; empty if they were. */
  failure = $state('');
  /** What is known of the lines of some stories, by the key of their greatest difference. */
  explained = $state.raw<ReadonlyMap<string, Explained>>(new Map());
  #controller: AbortController | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  look(comparison: Comparison, found: readonly Difference[], span: Span): void {
    this.leave();
    const controller = new AbortController();
    this.#controller = controller;
    this.overlap = null;
    this.failure = '';
    this.explained = new Map();
    this.ready = found.length === 0;
    if (this.ready) return;
    this.#timer = setTimeout(() => (this.ready = true), PATIENCE_MS);
    void this.#run(comparison, found, span, controller.signal);
  }

  async #run(comparison: Comparison, found: readonly Difference[], span: Span, signal: AbortSignal): Promise<void> {
    const rowsOf = async ({ query, span }: Comparing): Promise<Row[]> => {
      const rows: Row[] = [];
      await queryLines({ query, span, limit: MARKS_MAX }, (more) => rows.push(...more), { signal });
      return rows;
    };
    try {
      const overlap = overlapOf(await rowsOf(overlapQuery(comparison, found, span)), found.length);
      const explained = new Map<string, Explained>();
      // Two groups of lines are compared already: what explains one of their differences is among the others.
      const unclear = comparison.selected === null ? [] : toExplain(storiesOf(found, overlap));
      for (const { head } of unclear) {
        const own = ownLines(comparison, head, span);
        const common = writersOf(await queryFacets(own.query, own.span, 2, { signal }), head.selected);
        explained.set(keyOf(head), { common, causes: causesOf(differencesOf(await rowsOf(causesQuery(comparison, head, span))), head) });
      }
      this.overlap = overlap;
      this.explained = explained;
    } catch (error) {
      if (isAbort(error)) return;
      this.failure = error instanceof Error ? error.message : String(error);
    }
    clearTimeout(this.#timer);
    this.ready = true;
  }

  leave(): void {
    clearTimeout(this.#timer);
    this.#controller?.abort();
  }
}
