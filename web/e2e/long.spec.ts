// A live tail that is left open: heap, elements and listeners do not grow. Part of `make test-long`, for TAIL_MINUTES; without
// that variable there is no test here.

import { setTimeout as pause } from 'node:timers/promises';
import type { CDPSession, Page } from '@playwright/test';
import { expect, real, test, watch } from './common';

const MINUTES = Number(process.env['TAIL_MINUTES'] ?? 0);
const LINES_PER_S = 1_000;
const REQUESTS_PER_S = 4;
const SAMPLE_MS = 30_000;
/** What lists, charts and compiled code still take after the first samples, and the share by which the heap may differ. */
const HEAP_MORE_MAX = 8 * 2 ** 20;
const HEAP_SHARE_MAX = 1.25;
const SHARE_MAX = 1.25;

interface Sample {
  atS: number;
  heap: number;
  nodes: number;
  listeners: number;
  received: number;
  longTasks: number;
  longMs: number;
  longestMs: number;
}

/** Counts what keeps the page busy for more than 50 ms at a time. */
async function countLongTasks(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const sums = { count: 0, ms: 0, longest: 0 };
    Object.assign(window, { longTasks: sums });
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) {
        sums.count++;
        sums.ms += duration;
        sums.longest = Math.max(sums.longest, duration);
      }
    }).observe({ type: 'longtask', buffered: true });
  });
}

async function sample(page: Page, session: CDPSession, startedMs: number, received: number): Promise<Sample> {
  await session.send('HeapProfiler.collectGarbage');
  const { metrics } = await session.send('Performance.getMetrics');
  const metric = (name: string): number => metrics.find((one) => one.name === name)?.value ?? NaN;
  const long = await page.evaluate(() => (window as unknown as { longTasks: { count: number; ms: number; longest: number } }).longTasks);
  return {
    atS: Math.round((performance.now() - startedMs) / 1000),
    heap: metric('JSHeapUsedSize'),
    nodes: metric('Nodes'),
    listeners: metric('JSEventListeners'),
    received,
    longTasks: long.count,
    longMs: Math.round(long.ms),
    longestMs: Math.round(long.longest),
  };
}

function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? NaN;
}

/** Lines of a shop, each with a number, hosts, and a message whose length differs. */
function body(first: number, count: number): string {
  const now = new Date().toISOString();
  const line = (n: number): string => JSON.stringify({ _time: now, _msg: `request ${n} done ${'.'.repeat(n % 90)}`, app_name: `app${n % 7}`, hostname: `web${n % 40}`, level: n % 50 === 0 ? 'error' : 'info', took_ms: String(n % 900), request_id: `r${n}` });
  return `${Array.from({ length: count }, (_, at) => line(first + at)).join('\n')}\n`;
}

if (real && MINUTES > 0) {
  test('a live tail of a thousand lines a second does not grow', async ({ page, request }) => {
    test.setTimeout((MINUTES * 3 + 20) * 60_000);
    watch(page);
    await countLongTasks(page);
    const session = await page.context().newCDPSession(page);
    await session.send('Performance.enable');
    await page.goto('/?tail=1&range=1h&query=request');
    await expect(page.getByTestId('tail-bar')).toContainText('Live');

    const samples: Sample[] = [];
    const startedMs = performance.now();
    let sent = 0;
    let nextSampleMs = SAMPLE_MS;
    for (let requests = 0; performance.now() - startedMs < MINUTES * 60_000; requests++) {
      // Where the machine cannot keep up, fewer lines are sent: the table says how many.
      await pause(Math.max(0, startedMs + (requests * 1000) / REQUESTS_PER_S - performance.now()));
      const count = LINES_PER_S / REQUESTS_PER_S;
      const answer = await request.post('/insert/jsonline?_stream_fields=app_name', { data: body(sent, count), headers: { 'content-type': 'text/plain' } });
      expect(answer.ok(), await answer.text()).toBe(true);
      await answer.dispose();
      sent += count;
      if (performance.now() - startedMs >= nextSampleMs) {
        nextSampleMs += SAMPLE_MS;
        samples.push(await sample(page, session, startedMs, sent));
      }
    }
    console.log('     s   heap MB   elements  listeners       sent  long tasks  of which ms  longest ms');
    for (const one of samples) {
      const cells = [one.atS, (one.heap / 2 ** 20).toFixed(1), one.nodes, one.listeners, one.received, one.longTasks, one.longMs, one.longestMs];
      console.log(cells.map((cell, at) => String(cell).padStart([6, 9, 11, 11, 11, 12, 13, 12][at] as number)).join(''));
    }
    // The newest line is shown: the tail did not stop.
    const last = `tail-end-${sent}`;
    await request.post('/insert/jsonline?_stream_fields=app_name', { data: `${JSON.stringify({ _msg: `request ${last}`, app_name: 'app' })}\n`, headers: { 'content-type': 'text/plain' } });
    await expect(page.getByTestId('line-row').filter({ hasText: last })).toHaveCount(1);

    const third = Math.max(1, Math.floor(samples.length / 3));
    const [early, late] = [samples.slice(0, third), samples.slice(-third)];
    const of = (list: readonly Sample[], name: 'heap' | 'nodes' | 'listeners'): number => median(list.map((one) => one[name]));
    expect(of(late, 'heap')).toBeLessThan(of(early, 'heap') * HEAP_SHARE_MAX + HEAP_MORE_MAX);
    expect(of(late, 'nodes')).toBeLessThan(of(early, 'nodes') * SHARE_MAX + 1_000);
    expect(of(late, 'listeners')).toBeLessThan(of(early, 'listeners') * SHARE_MAX + 200);
  });
}
