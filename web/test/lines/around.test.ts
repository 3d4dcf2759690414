import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { aroundIn, linesAround } from '../../src/lib/lines/around';

const rowOf = (id: string, second: number): Record<string, string> => ({ _time: new Date(Date.UTC(2026, 0, 1, 12, 0, second)).toISOString(), _msg: id, _line_id: id, host: 'a' });

/** What the server has, newest first. */
let stored: Record<string, string>[];

beforeEach(() => {
  vi.stubGlobal('fetch', (url: string) => {
    const params = new URL(url, 'http://server').searchParams;
    const limit = Number(params.get('limit'));
    const isLater = params.get('query')?.includes('sort by (_time)') ?? false;
    const ns = (row: Record<string, string>): bigint => BigInt(Date.parse(row['_time'] ?? '')) * 1_000_000n;
    const found = isLater ? stored.filter((row) => ns(row) >= BigInt(params.get('start') ?? '0')).reverse() : stored.filter((row) => ns(row) < BigInt(params.get('end') ?? '0'));
    return Promise.resolve(new Response(found.slice(0, limit).map((row) => `${JSON.stringify(row)}\n`).join('')));
  });
});
afterEach(() => vi.unstubAllGlobals());

const ids = (rows: readonly Record<string, string>[]): string => rows.map((row) => row['_line_id']).join('');

test('lines of the same time behind the line do not stand for the end of the lines before it', async () => {
  stored = [rowOf('z', 9), rowOf('e', 5), rowOf('d', 5), rowOf('c', 5), rowOf('b', 4), rowOf('a', 3)];
  const target = rowOf('c', 5);
  const some = await linesAround(target, 'host', 3, 2, {});
  expect([ids(some.rows), some.isFirst, some.isLast]).toEqual(['bcdez', false, true]);
  expect(some.rows.find((row) => row['_is_target'] === 'true')?.['_line_id']).toBe('c');
  const more = await linesAround(target, 'host', 5, 1, {});
  expect([ids(more.rows), more.isFirst, more.isLast]).toEqual(['abcdez', true, false]);
});

test('a stream ends where fewer lines came than were asked for', () => {
  const rows = ['a', 'b', 'c', 'd'].map((id, at) => ({ ...rowOf(id, at), ...(id === 'c' ? { _is_target: 'true' } : {}) }));
  expect(aroundIn(rows, 2, 2)).toEqual({ rows, isFirst: false, isLast: true });
  expect(aroundIn(rows, 3, 1)).toEqual({ rows, isFirst: true, isLast: false });
});
