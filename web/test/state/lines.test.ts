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
