import { expect, test } from 'vitest';
import { chipsOf, placedIn, planChips } from '../../src/lib/lines/chips';
import type { Row } from '../../src/lib/base/jsonl';

const COLUMNS = new Set(['_time', '_level', '_type', '_host', '_app', '_msg']);
const row = (fields: Record<string, string>): Row => ({ _time: '2026-11-26T03:58:25Z', _type: 'json', _level: 'info', app: 'shop', host: 'shop1', ...fields });

function shown(rows: readonly Row[], at = 0, columns = COLUMNS): string {
  const one = rows[at] as Row;
  return chipsOf(one, planChips(rows), columns, placedIn(one, one['_msg'] ?? ''))
    .map(({ name, value }) => `${name}=${value}`)
    .join(' ');
}

const requests = Array.from({ length: 10 }, (_, i) =>
  row({ _msg: 'request done', level: 'info', trace_id: `a${i}f`, path: i % 2 ? '/cart' : '/checkout', status: '200', duration_ms: String(12.5 + i), pool: 'db1' }),
);

test('fields that vary are shown, identifiers last, and what is the same everywhere is not', () => {
  expect(shown(requests)).toBe('duration_ms=12.5 path=/checkout trace_id=a0f');
});

test('a field that some lines lack says something', () => {
  expect(shown([...requests, row({ _msg: 'request done', path: '/', error: 'timeout' })], 10)).toBe('error=timeout path=/');
});

test('each application is looked at by itself', () => {
  const others = [1, 2].map(() => row({ _msg: 'tick', app: 'cron', pool: 'db2' }));
  expect(shown([...requests, ...others], 10)).toBe('');
  expect(shown([...requests, others[0] as Row], 10)).toBe('pool=db2');
});

test('a field with a column has no chip', () => {
  expect(shown(requests, 0, new Set([...COLUMNS, 'path']))).toBe('duration_ms=12.5 trace_id=a0f');
  expect(shown([row({ _msg: 'x', a: '1' })], 0, new Set(['_msg']))).toBe('app=shop host=shop1 a=1');
});

test('a line without a message shows its fields', () => {
  expect(shown([row({ a: '1' }), row({ a: '1' })])).toBe('a=1');
});

test('values that the message says are clicked there', () => {
  const access = row({ _msg: '10.0.0.7 "GET /cart HTTP/1.1" 500 17 user=ann', client_ip: '10.0.0.7', method: 'GET', path: '/cart', status: '500', n: '17', user: 'ann', other: 'art' });
  const at = placedIn(access, access['_msg'] as string).map(({ field, from, to }) => `${field}:${access['_msg']?.slice(from, to)}@${from}`);
  expect(at).toEqual(['client_ip:10.0.0.7@0', 'method:GET@10', 'path:/cart@14', 'status:500@30', 'user:ann@42']);
  expect(shown([access])).toBe('n=17 other=art');
});

test('the header of syslog is no news', () => {
  expect(shown([row({ _msg: 'x', priority: '30', facility: '3', proc_id: '17', format: 'rfc5424', user: 'ann' })])).toBe('user=ann');
  expect(shown([row({ _msg: 'x', format: 'png' })])).toBe('format=png');
});

test('what went wrong comes before where it ran', () => {
  const rows = [1, 2, 3].map((at) => ({
    _msg: 'request failed',
    app_name: 'shop',
    pod: `shop-${at}`,
    node: `n${at}`,
    'k8s.namespace.name': `team-${at}`,
    region: `r${at}`,
    path: `/p${at}`,
    reason: `r-${at}`,
    'http.status_code': `50${at}`,
    duration_ms: String(at),
    error: `timeout ${at}`,
  }));
  const names = [...planChips(rows).values()][0];
  expect(names?.slice(0, 4).sort()).toEqual(['duration_ms', 'error', 'http.status_code', 'reason']);
  expect(names?.[4]).toBe('path');
  expect(names?.slice(5).sort()).toEqual(['k8s.namespace.name', 'node', 'pod', 'region']);
});

test('pinned fields come first, whatever their values, but not beside their column', () => {
  const one = requests[0] as Row;
  const pinned = (names: string[], columns = COLUMNS): string => chipsOf(one, planChips(requests), columns, placedIn(one, 'request done'), names).map(({ name }) => name).join(' ');
  expect(pinned(['pool', 'trace_id', 'absent'])).toBe('pool trace_id duration_ms path');
  expect(pinned(['pool'], new Set([...COLUMNS, 'pool']))).toBe('duration_ms path trace_id');
});
