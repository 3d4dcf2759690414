import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { NO_OPTIONS } from '../../src/lib/chart/options';
import { LinesSearch, PAGE_ROWS } from '../../src/lib/state/lines.svelte';

const WANTED = { lines: true, oldestFirst: false, facets: false, chart: NO_OPTIONS };
const OLD = { kind: 'absolute', startMs: Date.UTC(2026, 0, 1), endMs: Date.UTC(2026, 0, 2) } as const;

/** What the server answers, by path, and the parameters that it was asked with. */
let answers: Record<string, () => Response>;
let asked: { path: string; params: URLSearchParams }[];

const rowsOf = (count: number): string => Array.from({ length: count }, (_, at) => `${JSON.stringify({ _time: '2026-01-01T12:00:00Z', _msg: 'x', _line_id: String(at) })}\n`).join('');
const lines = (count: number, end = ''): (() => Response) => () => new Response(rowsOf(count) + end);
const failed = (): Response => Response.json({ error: 'the query took too long' }, { status: 422 });

beforeEach(() => {
  asked = [];
  answers = {
    '/select/logsql/query': lines(PAGE_ROWS),
    '/select/logsql/hits': () => Response.json({ hits: [] }),
    '/api/v1/queries': () => Response.json({ queries: [] }),
  };
  vi.stubGlobal('fetch', (url: string) => {
    const { pathname, searchParams } = new URL(url, 'http://server');
    asked.push({ path: pathname, params: searchParams });
    return Promise.resolve((answers[pathname] ?? failed)());
  });
});
afterEach(() => vi.unstubAllGlobals());

test('further pages are of the range of the rows, also without a histogram', async () => {
  const search = new LinesSearch();
  await search.run('*', { kind: 'relative', ms: 3_600_000 }, WANTED);
  answers['/select/logsql/hits'] = failed;
  await search.run('*', OLD, WANTED);
  expect(search.sideError).toContain('took too long');
  expect(search.span).toEqual({ startMs: OLD.startMs, endMs: OLD.endMs });
  asked = [];
  await search.loadMore();
  const more = asked.find(({ path }) => path === '/select/logsql/query');
  expect(more?.params.get('start')).toBe(new Date(OLD.startMs).toISOString());
});

test('rows of a query that ended early are not taken for all', async () => {
  const search = new LinesSearch();
  answers['/select/logsql/query'] = lines(1);
  await search.run('a', OLD, WANTED);
  expect([search.reachedEnd, search.isPartial]).toEqual([true, false]);
  answers['/select/logsql/query'] = lines(3, '{"_error":{"message":"the query took too long"}}\n');
  await search.run('b', OLD, WANTED);
  expect(search.rows).toHaveLength(3);
  expect(search.error?.message).toContain('took too long');
  expect([search.reachedEnd, search.isPartial]).toEqual([false, true]);
  answers['/select/logsql/query'] = lines(2);
  await search.run('c', OLD, WANTED);
  expect([search.reachedEnd, search.isPartial]).toEqual([true, false]);
});

test('a list that was read further keeps to the range, also when that is another one', async () => {
  const noon = Date.UTC(2026, 0, 1, 12);
  /** A line a second, the newest first. */
  const seconds = (count: number, endMs = noon): (() => Response) => {
    const line = (at: number): string => JSON.stringify({ _time: new Date(endMs - at * 1000).toISOString(), _msg: 'x', _line_id: String((endMs - at * 1000) / 1000) });
    return () => new Response(Array.from({ length: count }, (_, at) => `${line(at)}\n`).join(''));
  };
  const from = (startMs: number) => ({ kind: 'absolute', startMs, endMs: noon + 1 }) as const;
  const search = new LinesSearch();
  const read = async (): Promise<void> => {
    answers['/select/logsql/query'] = seconds(PAGE_ROWS);
    await search.run('*', from(noon - 3_600_000), WANTED);
    answers['/select/logsql/query'] = seconds(50, noon - PAGE_ROWS * 1000);
    await search.loadMore();
    expect(search.rows).toHaveLength(PAGE_ROWS + 50);
    expect(search.reachedEnd).toBe(true);
    answers['/select/logsql/query'] = seconds(PAGE_ROWS);
  };
  // The same range again keeps what was read.
  await read();
  await search.run('*', from(noon - 3_600_000), WANTED);
  expect(search.rows).toHaveLength(PAGE_ROWS + 50);
  // A shorter one with more than a page of lines, and one with a few.
  await search.run('*', from(noon - 120_000), WANTED);
  expect(search.rows).toHaveLength(PAGE_ROWS);
  expect(search.reachedEnd).toBe(false);
  await read();
  answers['/select/logsql/query'] = seconds(3);
  await search.run('*', from(noon - 2_000), WANTED);
  expect(search.rows).toHaveLength(3);
  expect(search.reachedEnd).toBe(true);
});

test('a refresh leaves out further lines that the range has left behind', async () => {
  vi.useFakeTimers({ now: Date.UTC(2026, 0, 1, 12), toFake: ['Date'] });
  try {
    const search = new LinesSearch();
    const range = { kind: 'relative', ms: 600_000 } as const;
    const page = (agoS: number, count: number): (() => Response) => {
      const line = (at: number): string => JSON.stringify({ _time: new Date(Date.UTC(2026, 0, 1, 12) - (agoS + at) * 1000).toISOString(), _msg: 'x', _line_id: String(agoS + at) });
      const text = Array.from({ length: count }, (_, at) => `${line(at)}\n`).join('');
      return () => new Response(text);
    };
    answers['/select/logsql/query'] = page(0, PAGE_ROWS);
    await search.run('*', range, WANTED);
    answers['/select/logsql/query'] = page(PAGE_ROWS, 400);
    await search.loadMore();
    expect(search.rows).toHaveLength(PAGE_ROWS + 400);
    vi.setSystemTime(Date.UTC(2026, 0, 1, 12, 5));
    answers['/select/logsql/query'] = page(0, PAGE_ROWS);
    await search.run('*', range, WANTED);
    // Lines of 11:55 and later.
    expect(search.rows).toHaveLength(301);
  } finally {
    vi.useRealTimers();
  }
});

test('the oldest lines first are not all any more when a refresh finds new ones behind them', async () => {
  const search = new LinesSearch();
  const wanted = { ...WANTED, oldestFirst: true };
  await search.run('*', OLD, wanted);
  const more = Array.from({ length: 7 }, (_, at) => `${JSON.stringify({ _time: '2026-01-01T13:00:00Z', _msg: 'y', _line_id: `more${at}` })}\n`).join('');
  answers['/select/logsql/query'] = () => new Response(more);
  await search.loadMore();
  expect([search.rows.length, search.reachedEnd]).toEqual([PAGE_ROWS + 7, true]);
  answers['/select/logsql/query'] = lines(PAGE_ROWS);
  await search.run('*', OLD, wanted);
  expect([search.rows.length, search.reachedEnd]).toEqual([PAGE_ROWS + 7, false]);
});

test('the range of a query is known before it has answered', async () => {
  const search = new LinesSearch();
  await search.run('*', OLD, WANTED);
  vi.stubGlobal('fetch', () => new Promise(() => {}));
  void search.run('*', { kind: 'absolute', startMs: 0, endMs: 1_000 }, WANTED);
  expect(search.wantedSpan).toEqual({ startMs: 0, endMs: 1_000 });
  // What is drawn is still that of the answer.
  expect(search.span).toEqual({ startMs: OLD.startMs, endMs: OLD.endMs });
  search.leave();
});
