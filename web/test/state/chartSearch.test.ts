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
