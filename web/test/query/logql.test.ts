import { afterEach, describe, expect, test, vi } from 'vitest';
import { queryLogQl } from '../../src/lib/api/loki';
import { rowsOfLogQl, withIntervals, withLogQlVariables } from '../../src/lib/query/logql';
import { shapeOf } from '../../src/lib/chart/shape';

const VARIABLES = [{ name: 'host', field: 'hostname' }, { name: 'app', field: 'app' }];

describe('variables in LogQL', () => {
  test.each([
    ['{h="$host"}', {}, '{h=~".*"}'],
    ['{h="$host"}', { host: ['a"b'] }, '{h="a\\"b"}'],
    ['{h=~"${host:regex}", b="c"}', { host: ['web.1', 'x|y'] }, '{h=~"web\\\\.1|x\\\\|y", b="c"}'],
    ['{h!="[[host]]"}', { host: ['a', 'b'] }, '{h!~"a|b"}'],
    ['{h=~"pre-$host.*"}', { host: ['a', 'b'] }, '{h=~"pre-(a|b).*"}'],
    ['{h=~"pre-$host"}', {}, '{h=~"pre-.*"}'],
    ['{a="b"} |= "$app" | json', { app: ['x"y'] }, '{a="b"} |="x\\"y" | json'],
    ['{a="b"} |= "$app"', {}, '{a="b"} |~".*"'],
    ['{a="b"} |= "$app"', { app: ['a.b', 'c'] }, '{a="b"} |~"a\\\\.b|c"'],
    ['{a="b"} |~ "^$app"', { app: ['a.b'] }, '{a="b"} |~"^(a\\\\.b)"'],
    ['{a="$other"}', { host: ['a'] }, '{a="$other"}'],
    ['{a=`$host`}', { host: ['a'] }, '{a="a"}'],
  ])('%s of %j', (query, chosen, written) => expect(withLogQlVariables(query, VARIABLES, chosen as never)).toBe(written));

  test('the step and the range', () => {
    expect(withIntervals('sum(rate({a="b"}[$__auto])) + count_over_time({a="b"}[${__range}]) $__interval $__intervals', 30_000, 3_600_000)).toBe('sum(rate({a="b"}[30s])) + count_over_time({a="b"}[3600s]) 30s $__intervals');
  });
});

test('numbers are rows that a chart over time can draw', () => {
  const { rows, like } = rowsOfLogQl({ resultType: 'matrix', result: [{ metric: { 'a b': 'x' }, values: [[1_767_225_600, '1'], [1_767_225_660, '2.5']] }, { metric: {}, values: [[1_767_225_600, '7']] }] }, 60_000, 10);
  expect(rows).toEqual([
    { _time: '2026-01-01T00:00:00.000Z', 'a b': 'x', value: '1' },
    { _time: '2026-01-01T00:01:00.000Z', 'a b': 'x', value: '2.5' },
    { _time: '2026-01-01T00:00:00.000Z', 'a b': '', value: '7' },
  ]);
  expect(shapeOf(rows, like as string)).toMatchObject({ time: '_time', stepMs: 60_000, groups: [{ name: 'a b' }], values: [{ name: 'value', additive: false }] });
});

test('lines are rows, the newest first', () => {
  const { rows, like } = rowsOfLogQl({ resultType: 'streams', result: [{ stream: { a: 'b' }, values: [['1767225600000000000', 'one'], ['1767225601000000000', 'two']] }] }, 60_000, 10);
  expect(like).toBeNull();
  expect(rows.map(({ _msg }) => _msg)).toEqual(['two', 'one']);
});

afterEach(() => vi.unstubAllGlobals());

test('a span of parts of milliseconds is asked for in whole nanoseconds', async () => {
  let asked = new URLSearchParams();
  vi.stubGlobal('fetch', (url: string) => {
    asked = new URL(url, 'http://server').searchParams;
    return Promise.resolve(Response.json({ data: { resultType: 'matrix', result: [] } }));
  });
  await queryLogQl('rate({a="b"}[1m])', { startMs: 1_767_225_600_000.5, endMs: 1_767_225_660_000.25 }, 30_000, 10);
  expect([asked.get('start'), asked.get('end'), asked.get('step')]).toEqual(['1767225600000000000', '1767225660001000000', '30']);
});
