import { describe, expect, it } from 'vitest';
import { buildQuery, builderOf, distributionOver, heatOver, isComplete, linesOver, percentilesOver, topOver } from '../../src/lib/chart/build';
import { changedOptions, isShown, NO_OPTIONS, onlySeries, readOptions, toggleSeries, type ChartOptions } from '../../src/lib/chart/options';
import { formatUnit, formatUnitShort, guessUnit, tickSteps, toNumber } from '../../src/lib/chart/units';
import { fromSearch, START, toSearch } from '../../src/lib/state/urlstate';

describe('links', () => {
  const chart: ChartOptions = { kind: 'bars', stack: 'percent', log: true, unit: 'bytes', values: ['n', 'a, b'], step: '5m', hidden: ['x & y', ''], only: [], top: 20, before: '1w' };

  it('keep the chart', () => {
    expect(fromSearch(toSearch({ ...START, chart })).chart).toEqual(chart);
    expect(fromSearch(toSearch({ ...START, chart: { ...NO_OPTIONS, only: ['p99'] } })).chart.only).toEqual(['p99']);
  });
  it('without a chart are as short as before, and old ones still work', () => {
    expect(toSearch({ ...START, query: '* | stats count()' })).toBe('?query=*+%7C+stats+count%28%29');
    expect(fromSearch('?query=x&cols=a&order=oldest').chart).toEqual(NO_OPTIONS);
  });
  it('with what this page does not know show the default', () => {
    expect(fromSearch('?chart=hologram&before=2y&stack=up&unit=furlong&step=soon&top=7&log=yes').chart).toEqual(NO_OPTIONS);
  });
  it('are bounded', () => {
    const hidden = Array.from({ length: 500 }, (_, i) => `series ${i}`);
    expect(fromSearch(toSearch({ ...START, chart: { ...NO_OPTIONS, hidden } })).chart.hidden).toHaveLength(60);
  });
  it('and documents have the same options', () => {
    expect(readOptions(JSON.parse(JSON.stringify(changedOptions(chart))))).toEqual(chart);
    expect(changedOptions(NO_OPTIONS)).toEqual({});
    for (const broken of [null, 3, [], { kind: 3, values: 'a', hidden: [1, null], top: 'x' }]) expect(readOptions(broken)).toEqual(NO_OPTIONS);
  });
});

describe('the legend', () => {
  const all = ['a', 'b', 'c'];
  it('hides and shows', () => {
    const hidden = toggleSeries(NO_OPTIONS, 'a', all);
    expect(all.filter((one) => isShown(hidden, one))).toEqual(['b', 'c']);
    expect(toggleSeries(hidden, 'a', all)).toEqual({ hidden: [], only: [] });
  });
  it('never hides everything', () => {
    expect(toggleSeries({ hidden: ['a', 'b'], only: [] }, 'c', all)).toEqual({ hidden: [], only: [] });
    expect(toggleSeries({ hidden: [], only: ['a'] }, 'a', all).only).toEqual([]);
  });
  it('shows one alone, adds others to it, and all again', () => {
    const one = onlySeries(NO_OPTIONS, 'b');
    expect(all.filter((name) => isShown(one, name))).toEqual(['b']);
    const two = toggleSeries(one, 'c', all);
    expect(two.only).toEqual(['b', 'c']);
    expect(toggleSeries(two, 'a', all)).toEqual({ hidden: [], only: [] });
    expect(onlySeries(one, 'b').only).toEqual([]);
  });
});

describe('units', () => {
  it.each([
    ['p99', 'quantile', 'duration_ms', 'ms'],
    ['p99', 'quantile', 'durationMs', 'ms'],
    ['total', 'sum', 'response_bytes', 'bytes'],
    ['n', 'count', null, 'number'],
    ['bytes', 'count_uniq', 'bytes', 'number'],
    ['share', 'avg', 'x', 'ratio'],
    ['cpu_percent', 'avg', 'x', 'percent'],
    ['took', 'avg', 'elapsed_seconds', 's'],
    ['x', 'sum_len', '_msg', 'bytes'],
    ['items', 'sum', 'items', 'number'],
    ['class', 'max', 'class', 'number'],
  ] as const)('of %s by %s(%s) is %s', (column, fn, field, unit) => expect(guessUnit(column, fn, field)).toBe(unit));

  it('are written for people', () => {
    expect(formatUnit(1536, 'bytes')).toBe('1.5 KiB');
    expect([0, 0.5, 12.345, 999.6, 1500, 90_000, 7_260_000].map((value) => formatUnitShort(value, 'ms'))).toEqual(['0 s', '500 µs', '12.3 ms', '1 s', '1.5 s', '1m 30s', '2h 1m']);
    expect(formatUnit(2_500_000, 'ns')).toBe('2.5 ms');
    expect(formatUnitShort(86_400, 's')).toBe('1d');
    expect(formatUnitShort(-90, 's')).toBe('−1m 30s');
    expect(formatUnit(12.3, 'percent')).toBe('12.3%');
    expect(formatUnit(0.123, 'ratio')).toBe('12.3%');
    expect(formatUnit(1234567, 'number')).toBe('1,234,567');
    expect(tickSteps('bytes')).toContain(1024);
  });

  it('read numbers and durations, and nothing else', () => {
    expect(['12.5', '1e3', '-2', '1m2.5s', '1.5ms', '', 'abc', 'NaN', '+Inf', '10.0.0.1', undefined].map(toNumber)).toEqual([12.5, 1000, -2, 62.5e9, 1.5e6, null, null, null, null, null, null]);
  });
});

describe('the builder', () => {
  it('writes queries that it reads again', () => {
    for (const fn of ['count', 'avg', 'percentiles', 'histogram', 'p99', 'rate', 'count_uniq'] as const) {
      const built = { fn, field: ['count', 'rate'].includes(fn) ? '' : 'duration_ms', by: ['path', 'a b'], step: '5m' };
      expect(builderOf(buildQuery('error', built, '30s'))).toEqual(built);
    }
  });
  it('replaces the pipe that it made, and keeps the filter and other pipes before it', () => {
    const query = buildQuery('a | extract "x" | stats by (p) count() n | sort by (n)', { fn: 'avg', field: 'odd name', by: [], step: 'auto' }, '30s');
    expect(query).toBe('a | extract "x" | stats by (_time:30s) avg("odd name") avg_odd_name');
    expect(buildQuery('', { fn: 'count', field: '', by: [], step: '' }, '30s')).toBe('* | stats count() lines');
  });
  it('needs a field for functions of fields', () => {
    expect(isComplete({ fn: 'avg', field: ' ', by: [], step: '' })).toBe(false);
    expect(isComplete({ fn: 'count', field: '', by: [], step: '' })).toBe(true);
  });
  it('draws a field in one click', () => {
    expect(percentilesOver('_type:="json"', 'duration_ms', '30s')).toBe('_type:="json" | stats by (_time:30s) quantile(0.5, duration_ms) p50, quantile(0.9, duration_ms) p90, quantile(0.99, duration_ms) p99');
    expect(distributionOver('', 'd')).toBe('* | stats histogram(d) distribution');
    expect(heatOver('a | stats count() n', 'd', '1m')).toBe('a | stats by (_time:1m) histogram(d) distribution');
    expect(linesOver('a', 'path', '1m')).toBe('a | stats by (_time:1m, path) count() lines');
    expect(topOver('a', 'path')).toBe('a | stats by (path) count() lines');
  });
});
