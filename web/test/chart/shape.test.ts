import { describe, expect, it } from 'vitest';
import { defaultKind, kindOf, kindsFor, shapeOf, shownValues, stackOf } from '../../src/lib/chart/shape';
import { NO_OPTIONS } from '../../src/lib/chart/options';
import { groupingOf, queryFor, statsOf, timeStepMs, withTimeStep } from '../../src/lib/query/stats';
import type { Row } from '../../src/lib/base/jsonl';

const T = ['2026-01-31T12:00:00Z', '2026-01-31T12:05:00Z'];
const kindFor = (query: string, rows: Row[]): string => defaultKind(shapeOf(rows, query), rows.length);

describe('the pipe that groups', () => {
  it('is read with its steps, functions, filters and names', () => {
    const pipe = statsOf('level:error | stats by (_time:5m, "a b", size:100) quantile(0.99, duration) p99, count() if (status:>=500) as bad, count() | sort by (p99)');
    expect(pipe?.keys.map(({ name, step }) => [name, step])).toEqual([['_time', '5m'], ['a b', null], ['size', '100']]);
    expect(pipe?.functions).toEqual([
      { name: 'p99', fn: 'quantile', field: 'duration', filter: null },
      { name: 'bad', fn: 'count', field: null, filter: 'status:>=500' },
      { name: 'count(*)', fn: 'count', field: null, filter: null },
    ]);
    expect(pipe?.before).toBe('level:error');
    expect(pipe?.behind).toBe('| sort by (p99)');
    expect(timeStepMs(pipe)).toBe(300_000);
  });

  it('is found without the word, and not where there is none', () => {
    expect(statsOf('* | by (path) count() n')?.keys.map((key) => key.name)).toEqual(['path']);
    expect(statsOf('* | count() n')?.functions[0]?.name).toBe('n');
    expect(statsOf('* | top 5 by (path)')?.pipe).toBe('top');
    expect(statsOf('"a | stats count()"')).toBeNull();
    expect(statsOf('* | fields a, b')).toBeNull();
    expect(statsOf('* | stats')?.functions).toEqual([]);
    expect(statsOf('* | stats by (a')?.keys[0]?.name).toBe('a');
    expect(statsOf('* | stats by (a) count() n | stats max(n) m')?.count).toBe(2);
  });

  it('gets buckets of time, and loses pipes that choose rows', () => {
    expect(withTimeStep('a | stats by (path) count() n | sort by (n desc) | limit 3 | filter n:>1', 60_000)).toBe('a | stats by (_time:60s, path) count() n | filter n:>1');
    expect(withTimeStep('a | stats by (_time:5m, path) count() n', 1000)).toBe('a | stats by (_time:1s, path) count() n');
    expect(withTimeStep('a | stats count() n', 1000)).toBe('a | stats by (_time:1s) count() n');
    expect(withTimeStep('a | top 3 by (path)', 1000)).toBe('a | top 3 by (path)');
  });

  it('is sent as it is written unless a chart needs other buckets', () => {
    const hour = { startMs: 0, endMs: 3_600_000 };
    expect(queryFor('* | stats by (_time:5m) count() n', null, true, hour)).toBe('* | stats by (_time:5m) count() n');
    expect(queryFor('* | stats by (p) count() n', null, false, hour)).toBe('* | stats by (p) count() n');
    expect(queryFor('* | stats by (p) count() n', 'auto', false, hour)).toBe('* | stats by (p) count() n');
    expect(queryFor('* | stats by (p) count() n', null, true, hour)).toBe('* | stats by (_time:30s, p) count() n');
    expect(queryFor('* | stats by (_time:5m) count() n', 'auto', true, hour)).toBe('* | stats by (_time:30s) count() n');
    expect(queryFor('* | stats by (_time:5m) count() n', '1m', true, hour)).toBe('* | stats by (_time:60s) count() n');
    // A month in seconds would be millions of buckets.
    expect(queryFor('* | stats by (_time:5m) count() n', '1s', true, { startMs: 0, endMs: 30 * 86_400_000 })).toBe('* | stats by (_time:21600s) count() n');
    expect(queryFor('error', 'auto', true, hour)).toBe('error');
  });

  it('is the same for other lines and steps', () => {
    expect(groupingOf('a | stats by (_time:5m, p) count() n')).toBe(groupingOf('b c | stats by (_time:1m, p) count() n'));
    expect(groupingOf('a | stats by (p) count() n')).not.toBe(groupingOf('a | stats by (q) count() n'));
    expect(groupingOf('a')).toBe('');
  });
});

describe('the default chart', () => {
  it.each<[string, string, Row[]]>([
    ['line', '* | stats by (_time:5m) count() n', T.map((_time) => ({ _time, n: '3' }))],
    ['line', '* | stats by (_time:5m, path) quantile(0.99, d) p99', T.map((_time) => ({ _time, path: '/', p99: '3.5' }))],
    ['heat', '* | stats by (_time:5m, d:100) count() n', T.map((_time) => ({ _time, d: '100', n: '3' }))],
    ['heat', '* | stats by (_time:5m) histogram(d) h', T.map((_time) => ({ _time, h: '[{"vmrange":"1.000e+00...1.136e+00","hits":5}]' }))],
    ['histogram', '* | stats histogram(d) h', [{ h: '[{"vmrange":"1.000e+00...1.136e+00","hits":5}]' }]],
    ['histogram', '* | stats by (d:100) count() n', [{ d: '0', n: '3' }, { d: '100', n: '4' }]],
    ['top', '* | stats by (path) count() n', [{ path: '/', n: '3' }, { n: '4' }]],
    ['top', '* | top 5 by (path)', [{ path: '/', hits: '3' }]],
    ['top', '* | stats by (status) count() n', [{ status: '200', n: '3' }]],
    ['table', '* | stats by (path, host) count() n', [{ path: '/', host: 'a', n: '3' }]],
    ['single', '* | stats count() n', [{ n: '3' }]],
    ['table', '* | stats by (path) any(user) who', [{ path: '/', who: 'ann' }]],
    ['table', '* | stats by (path) count() n', []],
  ])('is %s for %s', (kind, query, rows) => expect(kindFor(query, rows)).toBe(kind));

  it('gives way to the chosen one, if the result can be shown so', () => {
    const query = '* | stats by (_time:5m) count() n';
    const shape = shapeOf(T.map((_time) => ({ _time, n: '3' })), query);
    expect(kindOf({ ...NO_OPTIONS, kind: 'bars' }, shape, 2)).toBe('bars');
    expect(kindOf({ ...NO_OPTIONS, kind: 'heat' }, shape, 2)).toBe('line');
    expect(kindsFor(shape)).not.toContain('heat');
  });

  it('offers charts over time for a result without time, since it can be counted again', () => {
    expect(kindsFor(shapeOf([{ path: '/', n: '3' }], '* | stats by (path) count() n'))).toEqual(['line', 'area', 'bars', 'heat', 'pie', 'single', 'top', 'table']);
    expect(kindsFor(shapeOf([{ path: '/', hits: '3' }], '* | top by (path)'))).not.toContain('line');
    expect(kindsFor(shapeOf([{ path: '/', p: '3' }], '* | stats by (path) avg(d) p'))).not.toContain('pie');
  });
});

describe('columns', () => {
  const query = '* | stats by (_time:5m) quantile(0.99, duration_ms) p99, count() n, max(size_bytes) biggest, max(took) longest';
  const shape = shapeOf(T.map((_time) => ({ _time, p99: '12.5', n: '3', biggest: '4096', longest: '1.5s' })), query);

  it('have units, and say what can be added up', () => {
    expect(shape.values.map(({ name, unit, additive }) => [name, unit, additive])).toEqual([
      ['p99', 'ms', false],
      ['n', 'number', true],
      ['biggest', 'bytes', false],
      ['longest', 'ns', false],
    ]);
    expect(shape.stepMs).toBe(300_000);
  });

  it('share an axis if they have one unit; single values need none', () => {
    expect(shownValues(shape, null, 'line').map((value) => value.name)).toEqual(['p99']);
    expect(shownValues(shape, ['n', 'p99'], 'line').map((value) => value.name)).toEqual(['p99', 'n']);
    expect(shownValues(shape, ['gone'], 'line').map((value) => value.name)).toEqual(['p99']);
    expect(shownValues(shape, null, 'single')).toHaveLength(4);
  });

  it('are stacked only if they can be added up', () => {
    const [p99, n] = shape.values;
    if (!p99 || !n) throw new Error('no columns');
    expect(stackOf('bars', null, [n], 3)).toBe('stacked');
    expect(stackOf('bars', null, [n], 1)).toBe('none');
    expect(stackOf('area', null, [p99], 3)).toBe('none');
    expect(stackOf('line', 'stacked', [n], 3)).toBe('none');
    expect(stackOf('area', 'percent', [n], 3)).toBe('percent');
    expect(stackOf('area', 'percent', [p99, n], 3)).toBe('none');
  });
});
