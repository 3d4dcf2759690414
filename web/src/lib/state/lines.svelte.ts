// One search: the newest lines (or the oldest), the histogram and the facets of a query over a range.
//
// Lines and histogram are requested at once, the facets after them; each is shown as it arrives. A range is resolved to
// instants once per run, so that all three, and all further pages, are about the same lines.

import { ApiError, isAbort, isCancelled } from '../api/call';
import { fieldNames, fieldValues, queryFacets, queryHits, queryLines, type ValueHits } from '../api/queries';
import type { Row } from '../base/jsonl';
import { levelSeriesOfHits, type LevelSeries } from '../lines/buckets';
import { CHART_ROWS_MAX, type ChartOptions } from '../chart/options';
import { isOverTime, isStats } from '../chart/shape';
import { queryFor } from '../query/stats';
import { numbersOf, numbersQuery, numericFields, shownFacets, type FieldFacts, type ShownFacet } from '../lines/facets';
import { chosenValues, filterOf, splitQuery, withoutChoice } from '../query/logsql';
import { keepFurther, LEVEL_FIELD, pageBehind, reuseRows } from '../lines/rows';
import { missing } from './missing.svelte';
import { RunningQueries } from './running.svelte';
import { serverStatus } from './status.svelte';
import { barsMax, bucketsOf, niceStep, type Buckets } from '../base/steps';
import { resolveRange, timeToMs, type Range, type Span } from '../base/time';

export const PAGE_ROWS = 100;
/** Rows to request if pipes make a table: there is no older page to load then. */
export const TABLE_ROWS_MAX = 1000;
/** Further pages are loaded at the end of a list that is read, and are larger. */
export const MORE_ROWS = 500;
/** Limit of the lines in the list; beyond it, narrow the range. A line takes a few kilobytes of memory. */
export const ROWS_MAX = 20_000;
const FACET_VALUES = 8;
/** Fields whose other values are requested in addition to the chosen ones; further fields show only the chosen ones. */
const CHOSEN_FIELDS_MAX = 5;

/** What is requested besides the histogram. */
export interface Wanted {
  lines: boolean;
  /** Lines in the order of time; rows of pipes keep their own. */
  oldestFirst: boolean;
  facets: boolean;
  /** How a table is to be shown: a chart over time may need other buckets than the query has. */
  chart: Pick<ChartOptions, 'kind' | 'step'>;
}

export class LinesSearch {
  running = new RunningQueries();
  rows = $state.raw<Row[]>([]);
  /** Null until the first answer. */
  span = $state.raw<Span | null>(null);
  /** The time when that span was requested, by the server's clock. */
  askedMs = $state(0);
  /** The span of the last run, which may not have answered yet. */
  wantedSpan = $state.raw<Span | null>(null);
  buckets = $state.raw<Buckets | null>(null);
  levels = $state.raw<LevelSeries[]>([]);
  hits = $state<number | null>(null);
  facets = $state.raw<ShownFacet[]>([]);
  error = $state.raw<ApiError | null>(null);
  /** Says which of histogram and facets failed, and why; the lines are shown nevertheless. */
  sideError = $state<string | null>(null);
  cancelled = $state(false);
  loadingMore = $state(false);
  reachedEnd = $state(false);
  /** The query failed or was cancelled while its rows came: there may be more. */
  isPartial = $state(false);
  /** The server could not be reached: rows, histogram and fields are those of the last answer. */
  isEarlier = $state(false);
  /** The query the rows belong to, and their order. */
  query = $state('');
  /** The query as it was sent, in the buckets of time of its chart. */
  sent = $state('');
  oldestFirst = $state(false);
  tookMs = $state<number | null>(null);
  loading = $state(false);
  /** The facets are complete: all that is known of the fields of the lines found. */
  facetsDone = $state(false);
  /** The filter and range that the facets were counted for. */
  facetsFor = $state('');
  #run = 0;
  /** What the last run asked for, and what the rows were asked for. */
  #asked = '';
  #rowsFor = '';

  /** The rows are lines of the log, not a table made by pipes. */
  get isLines(): boolean {
    const first = this.rows[0];
    return first === undefined ? splitQuery(this.query).pipes === '' : '_time' in first && ('_msg' in first || '_line_id' in first);
  }

  async run(query: string, range: Range, wanted: Wanted): Promise<void> {
    const run = ++this.#run;
    this.running.abandon();
    if (range.kind === 'all' && !serverStatus.latest) await serverStatus.poll();
    if (run !== this.#run) return;

    const askedMs = serverStatus.nowMs();
    const span = resolveRange(range, askedMs, serverStatus.stored());
    this.wantedSpan = span;
    const text = query.trim() || '*';
    const filter = filterOf(text);
    const { pipes } = splitQuery(text);
    const oldestFirst = wanted.oldestFirst && pipes === '';
    const { kind, step } = wanted.chart;
    const sent = queryFor(text, step, kind !== null && isOverTime(kind), span);
    const stepMs = niceStep(span, 1, barsMax());
    const buckets = bucketsOf(span, stepMs);
    const current = (): boolean => run === this.#run;
    const startedMs = performance.now();
    const got = { lines: !wanted.lines, histogram: false, facets: false };
    // A refresh keeps a live tail and further pages, and with them what they lack.
    const asked = `${wanted.lines} ${oldestFirst} ${JSON.stringify(range)} ${sent}`;
    const keepsOthers = asked === this.#asked && (!wanted.lines || (pipes === '' && this.rows.length > PAGE_ROWS));
    this.#asked = asked;
    if (!keepsOthers) missing.begin();
    this.cancelled = false;
    this.loading = true;
    this.facetsDone = false;

    const lines = async (): Promise<void> => {
      const limit = pipes === '' ? PAGE_ROWS : isStats(text) ? CHART_ROWS_MAX : TABLE_ROWS_MAX;
      const rows: Row[] = [];
      const isRefresh = this.sent === sent && this.oldestFirst === oldestFirst;
      // Further rows of another range are none of this one, nor are those that a relative range has left behind.
      const isLonger = this.#rowsFor === asked && pipes === '' && this.rows.length > limit;
      const further = isLonger ? this.rows.filter((row) => !(timeToMs(row['_time'] ?? '') < span.startMs)) : null;
      const show = (): void => {
        // A list that was read further than a page stays as long as it is while it is refreshed.
        this.rows = further && rows.length >= limit ? keepFurther(further, reuseRows(further, rows)) : isRefresh ? reuseRows(this.rows, rows) : [...rows];
        this.query = text;
        this.sent = sent;
        this.#rowsFor = asked;
        this.oldestFirst = oldestFirst;
        this.error = null;
        this.isEarlier = false;
        got.lines = true;
      };
      try {
        await this.running.track('query', sent, (options) =>
          queryLines({ query: sent, span, limit, oldestFirst }, (more) => {
            rows.push(...more);
            if (current() && !further) show();
          }, options),
        );
        if (!current()) return;
        show();
        this.isPartial = false;
        // New lines stand behind the oldest ones.
        if (this.rows.length <= limit || oldestFirst) this.reachedEnd = pipes !== '' || rows.length < limit || this.rows.length >= ROWS_MAX;
        this.tookMs = performance.now() - startedMs;
      } catch (error) {
        if (!current()) return;
        if (got.lines) {
          this.isPartial = true;
          this.reachedEnd = pipes !== '';
        }
        if (isAbort(error) || isCancelled(error) || this.cancelled) {
          this.cancelled = true;
          return;
        }
        this.error = toApiError(error);
        if (isAway(this.error)) return;
        this.query = text;
        this.sent = sent;
      }
    };
    const histogram = async (): Promise<void> => {
      const groups = await this.running.track('hits', filter, (options) => queryHits(filter, span, stepMs, LEVEL_FIELD, options));
      if (!current()) return;
      this.span = span;
      this.askedMs = askedMs;
      this.buckets = buckets;
      this.levels = levelSeriesOfHits(groups, buckets);
      this.hits = groups.reduce((sum, group) => sum + group.total, 0);
      got.histogram = true;
    };
    const facets = async (): Promise<void> => {
      const answer = await this.running.track('facets', filter, (options) => queryFacets(filter, span, FACET_VALUES, options));
      if (!current()) return;
      const chosen = chosenValues(filter);
      const others = new Map<string, ValueHits[]>();
      let facts: FieldFacts = { fields: [], numbers: new Map() };
      const show = (): void => {
        this.facetsFor = facetsKey(filter, range);
        this.facets = shownFacets(answer, this.hits ?? Infinity, chosen, others, facts);
      };
      show();
      got.facets = true;
      for (const field of [...chosen.keys()].slice(0, CHOSEN_FIELDS_MAX)) {
        const wider = filterOf(withoutChoice(filter, field));
        const values = await this.running.track('field_values', wider, (options) =>
          fieldValues(wider, span, field, FACET_VALUES, '', options),
        );
        if (!current()) return;
        others.set(field, values);
      }
      if (others.size > 0) show();
      const fields = await this.running.track('field_names', filter, (options) => fieldNames(filter, span, options));
      if (!current()) return;
      facts = { ...facts, fields };
      show();
      const numeric = this.isLines ? numericFields(this.rows) : [];
      if (numeric.length === 0) return;
      const rows: Row[] = [];
      const query = numbersQuery(filter, numeric);
      await this.running.track('query', query, (options) => queryLines({ query, span, limit: 1 }, (more) => rows.push(...more), options));
      if (!current()) return;
      facts = { ...facts, numbers: numbersOf(rows[0], numeric) };
      show();
    };
    /** `what` begins the message of a failure. */
    const aside = async (what: string, task: () => Promise<void>): Promise<void> => {
      try {
        await task();
      } catch (error) {
        if (!current()) return;
        if (isAbort(error) || isCancelled(error)) this.cancelled = true;
        else if (!this.cancelled) this.sideError = `${what} could not be counted. ${toApiError(error).message}`;
      }
    };

    this.sideError = null;
    await Promise.all([wanted.lines ? lines() : null, aside('The histogram', histogram)]);
    if (!current()) return;
    this.loading = false;
    // An incident is the worst time to lose what one looks at: without a server, the last answer stays and says so.
    if (wanted.lines && this.error !== null && isAway(this.error) && this.rows.length > 0) {
      this.isEarlier = true;
      return;
    }
    this.isEarlier = false;
    // If a query failed or was cancelled, rows of an earlier one must not be taken for its answer.
    if (!got.lines) this.rows = [];
    if (!got.histogram) {
      // The rows are of this range all the same: further pages and exports must not be of the range before.
      this.span = span;
      this.askedMs = askedMs;
      this.buckets = null;
      this.levels = [];
      this.hits = null;
    }
    // Facets cost the most and are looked at last; which fields are numbers is seen in the lines.
    if (wanted.facets && !this.cancelled) await aside('The fields', facets);
    if (!current()) return;
    if (!got.facets) this.facets = [];
    this.facetsDone = got.facets;
  }

  /** Loads the next page behind the last row. */
  async loadMore(): Promise<void> {
    const oldestFirst = this.oldestFirst;
    const from = pageBehind(this.rows, oldestFirst);
    const span = this.span;
    if (this.loadingMore || this.loading || this.reachedEnd || !from || !span) return;
    const run = this.#run;
    const more: Row[] = [];
    this.loadingMore = true;
    try {
      await this.running.track('query', this.query, (options) =>
        queryLines({ query: this.query, span, limit: MORE_ROWS, oldestFirst, ...from }, (rows) => more.push(...rows), options),
      );
      if (run !== this.#run) return;
      const known = new Set(this.rows.map((row) => row['_line_id']));
      const fresh = more.filter((row) => row['_line_id'] === undefined || !known.has(row['_line_id']));
      this.rows = [...this.rows, ...fresh];
      this.isPartial = false;
      this.reachedEnd = more.length < MORE_ROWS || this.rows.length >= ROWS_MAX;
    } catch (error) {
      if (run !== this.#run) return;
      if (isAbort(error) || isCancelled(error)) this.cancelled = true;
      else this.error = toApiError(error);
    } finally {
      this.loadingMore = false;
    }
  }

  async cancel(): Promise<void> {
    this.cancelled = true;
    try {
      await this.running.cancel();
    } catch (error) {
      // A query that has ended meanwhile needs no cancelling, and an unreachable server is reported elsewhere.
      if (!isCancelled(error)) this.error = toApiError(error);
    }
  }

  /** Aborts everything that runs, when the view is left. */
  leave(): void {
    this.#run++;
    this.running.abandon();
  }
}

/** Names what facets are counted for; a refresh of a relative range counts for the same. */
export function facetsKey(query: string, range: Range): string {
  return `${filterOf(query)} ${JSON.stringify(range)}`;
}

/** Nothing answers, or only that it is about to start. */
function isAway(error: ApiError): boolean {
  return error.status === 0 || error.status === 502 || error.status === 503 || error.status === 504;
}

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  return new ApiError(error instanceof Error ? error.message : String(error), 0);
}
