// One search: the newest lines, the histogram and the facets of a query over a range.
//
// Lines and histogram are asked at once, the facets after them; each is shown as it arrives. A range is resolved to instants once a run, so that all
// three, and every older page, speak of the same lines.

import { ApiError, isAbort, queryFacets, queryHits, queryLines, type Facet, type Row } from './api';
import { levelSeriesOfHits, type LevelSeries } from './buckets';
import { filterOf, splitQuery } from './logsql';
import { olderThan, reuseRows } from './rows';
import { RunningQueries } from './running.svelte';
import { serverStatus } from './status.svelte';
import { bucketsOf, niceStep, type Buckets } from './steps';
import { resolveRange, type Range, type Span } from './time';

export const PAGE_ROWS = 100;
/** Rows asked for when pipes make tables of the lines: there is no older page to load then. */
const TABLE_ROWS_MAX = 1000;
/** Lines kept in the table by “load older”; narrowing the range is the better way from there. */
export const ROWS_MAX = 5000;
const FACET_VALUES = 8;

/** What is asked besides the histogram. */
export interface Wanted {
  lines: boolean;
  facets: boolean;
}

export class LinesSearch {
  running = new RunningQueries();
  rows = $state.raw<Row[]>([]);
  /** Null until the first answer. */
  span = $state.raw<Span | null>(null);
  buckets = $state.raw<Buckets | null>(null);
  levels = $state.raw<LevelSeries[]>([]);
  hits = $state<number | null>(null);
  facets = $state.raw<Facet[]>([]);
  error = $state.raw<ApiError | null>(null);
  /** Of the histogram or the facets alone; the lines are shown all the same. */
  sideError = $state<string | null>(null);
  cancelled = $state(false);
  loadingOlder = $state(false);
  reachedEnd = $state(false);
  /** The query the rows belong to. */
  query = $state('');
  tookMs = $state<number | null>(null);
  loading = $state(false);
  #run = 0;

  /** Rows are lines of the log, not a table made by pipes. */
  get isLines(): boolean {
    const first = this.rows[0];
    return first === undefined ? splitQuery(this.query).pipes === '' : '_time' in first && ('_msg' in first || '_line_id' in first);
  }

  async run(query: string, range: Range, wanted: Wanted): Promise<void> {
    const run = ++this.#run;
    this.running.abandon();
    if (range.kind === 'all' && !serverStatus.latest) await serverStatus.poll();
    if (run !== this.#run) return;

    const span = resolveRange(range, serverStatus.nowMs(), serverStatus.stored());
    const text = query.trim() || '*';
    const filter = filterOf(text);
    const { pipes } = splitQuery(text);
    const stepMs = niceStep(span);
    const buckets = bucketsOf(span, stepMs);
    const current = (): boolean => run === this.#run;
    const startedMs = performance.now();
    const got = { lines: !wanted.lines, histogram: false, facets: false };
    this.cancelled = false;
    this.loading = true;

    const lines = async (): Promise<void> => {
      const limit = pipes === '' ? PAGE_ROWS : TABLE_ROWS_MAX;
      const rows: Row[] = [];
      const show = (): void => {
        this.rows = this.query === text ? reuseRows(this.rows, rows) : [...rows];
        this.query = text;
        this.error = null;
        got.lines = true;
      };
      try {
        await this.running.track('query', text, (options) =>
          queryLines({ query: text, span, limit }, (more) => {
            rows.push(...more);
            if (current()) show();
          }, options),
        );
        if (!current()) return;
        show();
        this.reachedEnd = pipes !== '' || rows.length < limit;
        this.tookMs = performance.now() - startedMs;
      } catch (error) {
        if (!current()) return;
        if (isAbort(error) || this.cancelled) {
          this.cancelled = true;
          return;
        }
        this.query = text;
        this.error = toApiError(error);
      }
    };
    const histogram = async (): Promise<void> => {
      const groups = await this.running.track('hits', filter, (options) => queryHits(filter, span, stepMs, '_level', options));
      if (!current()) return;
      this.span = span;
      this.buckets = buckets;
      this.levels = levelSeriesOfHits(groups, buckets);
      this.hits = groups.reduce((sum, group) => sum + group.total, 0);
      got.histogram = true;
    };
    const facets = async (): Promise<void> => {
      const answer = await this.running.track('facets', filter, (options) => queryFacets(filter, span, FACET_VALUES, options));
      if (!current()) return;
      this.facets = sortFacets(answer);
      got.facets = true;
    };
    const aside = async (task: () => Promise<void>): Promise<void> => {
      try {
        await task();
      } catch (error) {
        if (!current()) return;
        if (isAbort(error)) this.cancelled = true;
        else if (!this.cancelled) this.sideError = toApiError(error).message;
      }
    };

    this.sideError = null;
    // Facets cost most and are looked at last: they wait until the histogram is there.
    const besides = async (): Promise<void> => {
      await aside(histogram);
      if (wanted.facets && current() && !this.cancelled) await aside(facets);
    };
    await Promise.all([wanted.lines ? lines() : null, besides()]);
    if (!current()) return;
    this.loading = false;
    // What an earlier query found is no answer to one that failed or was cancelled.
    if (!got.lines) this.rows = [];
    if (!got.facets) this.facets = [];
    if (!got.histogram) {
      this.buckets = null;
      this.levels = [];
      this.hits = null;
    }
  }

  async loadOlder(): Promise<void> {
    const from = olderThan(this.rows);
    const span = this.span;
    if (this.loadingOlder || this.reachedEnd || !from || !span) return;
    const run = this.#run;
    const older: Row[] = [];
    this.loadingOlder = true;
    try {
      await this.running.track('query', this.query, (options) =>
        queryLines(
          { query: this.query, span, limit: PAGE_ROWS, ...from },
          (rows) => older.push(...rows),
          options,
        ),
      );
      if (run !== this.#run) return;
      const known = new Set(this.rows.map((row) => row['_line_id']));
      const fresh = older.filter((row) => row['_line_id'] === undefined || !known.has(row['_line_id']));
      this.rows = [...this.rows, ...fresh];
      this.reachedEnd = older.length < PAGE_ROWS || this.rows.length >= ROWS_MAX;
    } catch (error) {
      if (run === this.#run && !isAbort(error)) this.error = toApiError(error);
    } finally {
      this.loadingOlder = false;
    }
  }

  async cancel(): Promise<void> {
    this.cancelled = true;
    try {
      await this.running.cancel();
    } catch (error) {
      this.error = toApiError(error);
    }
  }

  /** Lets go of everything that runs, when the view is left. */
  leave(): void {
    this.#run++;
    this.running.abandon();
  }
}

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(error instanceof Error ? error.message : String(error), 0);
}

const FACETS_FIRST = ['_type', '_level', 'app_name', 'hostname', 'status'];
/** Internals and what is the same information again. */
const FACETS_HIDDEN = new Set(['_stream', '_stream_id', '_time', '_line_id', '_line', '_received']);

function sortFacets(facets: readonly Facet[]): Facet[] {
  const place = (facet: Facet): number => {
    const at = FACETS_FIRST.indexOf(facet.field_name);
    return at < 0 ? FACETS_FIRST.length : at;
  };
  return facets
    .filter((facet) => !FACETS_HIDDEN.has(facet.field_name))
    .map((facet, index) => ({ facet, index }))
    .sort((a, b) => place(a.facet) - place(b.facet) || a.index - b.index)
    .map(({ facet }) => facet);
}
