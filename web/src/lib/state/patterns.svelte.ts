// Asks the server for what the cards of patterns show beside their lines: the time before, then courses, levels and hosts.

import { isAbort } from '../api/call';
import { queryLines } from '../api/queries';
import type { Row } from '../base/jsonl';
import type { Span } from '../base/time';
import { courseQuery, DETAILED_MAX, detailsOf, earlierQuery, hostsOf, hostsQuery, type PatternDetail, type PatternHosts } from '../lines/patternCards';

const ROWS_MAX = 20_000;

async function ask(query: string, span: Span, signal: AbortSignal): Promise<Row[]> {
  const rows: Row[] = [];
  await queryLines({ query, span, limit: ROWS_MAX }, (more) => rows.push(...more), { signal });
  return rows;
}

/** The patterns whose details are asked for. */
const detailed = (rows: readonly Row[]): string[] => rows.slice(0, DETAILED_MAX).map((row) => row['pattern'] ?? '');

export class Patterns {
  /** The patterns of the time before; null while they are not known. */
  earlier = $state.raw<Row[] | null>(null);
  details = $state.raw<ReadonlyMap<string, PatternDetail>>(new Map());
  hosts = $state.raw<ReadonlyMap<string, PatternHosts>>(new Map());
  failure = $state('');
  #controller: AbortController | null = null;
  #hosts: AbortController | null = null;

  look(before: string, field: string, rows: readonly Row[], span: Span): void {
    this.#controller?.abort();
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    this.earlier = null;
    this.details = new Map();
    this.failure = '';
    void this.#run(async () => {
      const patterns = detailed(rows);
      const details = detailsOf(await ask(courseQuery(before, field, patterns, span), span, signal), patterns.length, span);
      this.details = new Map(patterns.flatMap((pattern, place) => (details[place] ? [[pattern, details[place]]] : [])));
      const earlier = earlierQuery(before, field, span);
      this.earlier = await ask(earlier.query, earlier.span, signal);
    });
  }

  /** The hosts by themselves: which field names them is known later than the patterns are. */
  lookHosts(before: string, field: string, rows: readonly Row[], span: Span, hostField: string): void {
    this.#hosts?.abort();
    this.#hosts = new AbortController();
    const { signal } = this.#hosts;
    this.hosts = new Map();
    if (hostField === '') return;
    void this.#run(async () => {
      const patterns = detailed(rows);
      this.hosts = hostsOf(await ask(hostsQuery(before, field, patterns, hostField), span, signal), patterns);
    });
  }

  async #run(task: () => Promise<void>): Promise<void> {
    try {
      await task();
    } catch (error) {
      if (!isAbort(error)) this.failure = error instanceof Error ? error.message : String(error);
    }
  }

  leave(): void {
    this.#controller?.abort();
    this.#hosts?.abort();
  }
}
