// The rows of one chart: runs its query over a range, in buckets that fit, and tells how that goes.

import { isAbort, isCancelled, type ApiError } from '../api/call';
import { queryLogQl } from '../api/loki';
import { queryLines } from '../api/queries';
import { withIntervals } from '../query/logql';
import { barsMax, niceStep } from '../base/steps';
import type { Row } from '../base/jsonl';
import { toApiError } from './lines.svelte';
import { RunningQueries } from './running.svelte';
import { serverStatus } from './status.svelte';
import { resolveRange, type Range, type Span } from '../base/time';
import { CHART_ROWS_MAX, type ChartOptions } from '../chart/options';
import { isOverTime } from '../chart/shape';
import { queryFor } from '../query/stats';

export class ChartSearch {
  running = new RunningQueries();
  rows = $state.raw<Row[]>([]);
  /** The query that the rows answer, with its buckets of time. */
  sent = $state('');
  /** Null until the first answer. */
  span = $state.raw<Span | null>(null);
  error = $state.raw<ApiError | null>(null);
  cancelled = $state(false);
  /** The rows are the newest lines of a query in LogQL, which may have more. */
  isCut = $state(false);
  loading = $state(false);
  #run = 0;

  /** `rowsMax`: of lines, the newest ones. */
  async run(query: string, range: Range, options: Pick<ChartOptions, 'kind' | 'step'>, isLogQl = false, rowsMax = CHART_ROWS_MAX): Promise<void> {
    const run = ++this.#run;
    this.running.abandon();
    this.loading = true;
    this.cancelled = false;
    if (range.kind === 'all' && !serverStatus.latest) await serverStatus.poll();
    if (run !== this.#run) return;
    const span = resolveRange(range, serverStatus.nowMs(), serverStatus.stored());
    const stepMs = niceStep(span, 1000, barsMax());
    const sent = isLogQl ? withIntervals(query, stepMs, span.endMs - span.startMs) : queryFor(query.trim() || '*', options.step, options.kind !== null && isOverTime(options.kind), span);
    const rows: Row[] = [];
    try {
      let like: string | null = null;
      let isCut = false;
      if (isLogQl) {
        const answer = await this.running.track('loki', sent, (call) => queryLogQl(sent, span, stepMs, CHART_ROWS_MAX, call));
        rows.push(...answer.rows);
        like = answer.like ?? '*';
        isCut = answer.isCut;
      } else await this.running.track('query', sent, (call) => queryLines({ query: sent, span, limit: rowsMax }, (more) => rows.push(...more), call));
      if (run !== this.#run) return;
      this.rows = rows;
      this.isCut = isCut;
      this.sent = like ?? sent;
      this.span = span;
      this.error = null;
    } catch (error) {
      if (run !== this.#run) return;
      // Rows of an earlier query or range must not be taken for the answer to this one.
      this.rows = [];
      this.sent = sent;
      if (isAbort(error) || isCancelled(error)) {
        this.cancelled = true;
        this.error = null;
      } else this.error = toApiError(error);
    } finally {
      if (run === this.#run) this.loading = false;
    }
  }

  async cancel(): Promise<void> {
    this.cancelled = true;
    try {
      await this.running.cancel();
    } catch (error) {
      if (!isCancelled(error)) this.error = toApiError(error);
    }
  }

  leave(): void {
    this.#run++;
    this.running.abandon();
    this.loading = false;
  }
}
