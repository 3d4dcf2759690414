import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { NO_OPTIONS } from '../../src/lib/chart/options';
import { LinesSearch } from '../../src/lib/state/lines.svelte';
import { missing } from '../../src/lib/state/missing.svelte';

const WANTED = { lines: true, oldestFirst: false, facets: false, chart: NO_OPTIONS };
const DAY = { kind: 'absolute', startMs: Date.UTC(2026, 0, 1), endMs: Date.UTC(2026, 0, 2) } as const;
const ROW = `${JSON.stringify({ _time: '2026-01-01T12:00:00Z', _msg: 'x', _line_id: '1' })}\n`;

/** The headers of the answers, by path. */
let headers: Record<string, Record<string, string>>;

beforeEach(() => {
  headers = {};
  vi.stubGlobal('fetch', (url: string) => {
    const { pathname } = new URL(url, 'http://server');
    const body = pathname === '/select/logsql/query' ? ROW : '{"hits":[],"queries":[]}';
    return Promise.resolve(new Response(body, { headers: headers[pathname] ?? {} }));
  });
});
afterEach(() => vi.unstubAllGlobals());

test('what one answer of a search lacks is told although another one is whole', async () => {
  const search = new LinesSearch();
  const away = { 'X-Loginson-Missing-Stores': 'b' };
  for (const path of ['/select/logsql/query', '/select/logsql/hits']) {
    headers = { [path]: away };
    await search.run('*', DAY, WANTED);
    expect(missing.stores).toBe('b');
    headers = {};
    await search.run('*', DAY, WANTED);
    expect(missing.stores).toBe('');
  }
});

test('what several answers lack is told once', () => {
  const notice = { what: 'log', text: 'Kafka does not answer' } as const;
  missing.begin();
  missing.note('a, b', 'block 3', [notice]);
  missing.note('', '', []);
  missing.note('b, c', 'block 3; block 4', [notice]);
  expect([missing.stores, missing.lines, missing.notices]).toEqual(['a, b, c', 'block 3; block 4', [notice]]);
  // Until the next answer, nothing is known of what is asked for now.
  missing.begin();
  expect(missing.stores).toBe('a, b, c');
  missing.note('', '', []);
  expect([missing.stores, missing.lines, missing.notices]).toEqual(['', '', []]);
});
