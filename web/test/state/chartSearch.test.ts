import { afterEach, expect, test, vi } from 'vitest';
import { NO_OPTIONS } from '../../src/lib/chart/options';
import { ChartSearch } from '../../src/lib/state/chartSearch.svelte';

afterEach(() => vi.unstubAllGlobals());

test('rows of another range do not stay when the query is cancelled', async () => {
  let answer = (): Response => new Response('{"n":"7"}\n');
  vi.stubGlobal('fetch', (url: string) => Promise.resolve(url.startsWith('/select/') ? answer() : Response.json({ queries: [] })));
  const search = new ChartSearch();
  await search.run('* | stats count() n', { kind: 'absolute', startMs: 0, endMs: 60_000 }, NO_OPTIONS);
  expect([search.rows.length, search.cancelled]).toEqual([1, false]);
  answer = () => Response.json({ error: 'the query was cancelled' }, { status: 422 });
  await search.run('* | stats count() n', { kind: 'absolute', startMs: 0, endMs: 3_600_000 }, NO_OPTIONS);
  expect([search.rows.length, search.cancelled, search.error]).toEqual([0, true, null]);
});

test('lines of LogQL that are the newest of more say so', async () => {
  let count = 1_000;
  const data = (): unknown => ({ resultType: 'streams', result: [{ stream: { app: 'a' }, values: Array.from({ length: count }, (_, at) => [`${at + 1}000000`, 'x']) }] });
  vi.stubGlobal('fetch', (url: string) => Promise.resolve(Response.json(url.startsWith('/loki/') ? { data: data() } : { queries: [] })));
  const search = new ChartSearch();
  const range = { kind: 'absolute', startMs: 0, endMs: 60_000 } as const;
  await search.run('{app="a"}', range, NO_OPTIONS, true);
  expect([search.error, search.rows.length, search.isCut]).toEqual([null, 1_000, true]);
  count = 2;
  await search.run('{app="a"}', range, NO_OPTIONS, true);
  expect([search.rows.length, search.isCut]).toEqual([2, false]);
});
