import { describe, expect, it } from 'vitest';
import { binLabel, distributionOf, heatOf, rangesOf } from '../../src/lib/chart/bins';
import { colorsOf, paletteColor } from '../../src/lib/chart/colors';
import { explainQuery, leadsToLines, linesOfAny, linesQuery } from '../../src/lib/chart/drill';
import { bucketTimes, distinct, frameOf, slicesOf } from '../../src/lib/chart/frame';
import { shapeOf, type Shape } from '../../src/lib/chart/shape';
import { statsOf, type StatsPipe } from '../../src/lib/query/stats';
import type { Row } from '../../src/lib/base/jsonl';

const MINUTE = 60_000;
const START = Date.parse('2026-01-31T12:00:00Z');
const at = (minute: number): string => new Date(START + minute * MINUTE).toISOString();
const span = (from: number, to: number) => ({ startMs: START + from * MINUTE, endMs: START + to * MINUTE });

function frame(query: string, rows: Row[], top = 10, of: { startMs: number; endMs: number } | null = null) {
  const shape = shapeOf(rows, query);
  return frameOf(rows, shape, shape.values, top, of);
}

describe('buckets', () => {
  it('fill the gaps and reach the ends of the span', () => {
    expect(bucketTimes([START + 2 * MINUTE], MINUTE, span(0.5, 4.5)).times.map((ms) => (ms - START) / MINUTE)).toEqual([0, 1, 2, 3, 4]);
    expect(bucketTimes([START, START + 3 * MINUTE], MINUTE, null).times).toHaveLength(4);
  });
  it('of months stay as they are', () => {
    const months = [Date.UTC(2026, 0), Date.UTC(2026, 1), Date.UTC(2026, 2)];
    expect(bucketTimes(months, null, { startMs: 0, endMs: Date.UTC(2027, 0) }).times).toEqual(months);
  });
  it('are bounded', () => {
    expect(bucketTimes([START, START + 1], 1, { startMs: START, endMs: START + 1e9 }).times).toHaveLength(2);
    expect(bucketTimes([], 1000, span(0, 1)).times).toEqual([]);
  });
});

describe('series', () => {
  const rows: Row[] = [];
  for (let i = 0; i < 30; i++) for (const minute of [0, 2]) rows.push({ _time: at(minute), path: `/${String(i).padStart(2, '0')}`, n: String(i), p: String(i) });

  it('of counts are folded into a sum, and missing buckets are zero', () => {
    const { series, folded, isRestDrawn, times } = frame('* | stats by (_time:1m, path) count() n', rows.map(({ p: _, ...row }) => row), 3, span(0, 3));
    expect(times).toHaveLength(3);
    expect(series.map((one) => one.label)).toEqual(['/29', '/28', '/27', 'others']);
    expect(series[0]?.points).toEqual([29, 0, 29]);
    expect(series[3]?.points).toEqual([351, 0, 351]);
    expect(series[3]?.group).toBeNull();
    expect([folded, isRestDrawn]).toEqual([27, true]);
  });

  it('of percentiles leave the others out, and missing buckets empty', () => {
    const { series, folded, isRestDrawn } = frame('* | stats by (_time:1m, path) quantile(0.5, d) p', rows.map(({ n: _, ...row }) => row), 5);
    expect(series).toHaveLength(5);
    expect(series[0]?.points).toEqual([29, null, 29]);
    expect([folded, isRestDrawn]).toEqual([25, false]);
  });

  it('of thousands of groups are never more than the chosen number for all columns', () => {
    const many = Array.from({ length: 5000 }, (_, i) => ({ _time: at(0), g: String(i), a: '1', b: '2' }));
    const { series, folded } = frame('* | stats by (_time:1m, g) count() a, count() if (x) b', many, 10);
    expect(series.length).toBeLessThanOrEqual(12);
    expect(folded).toBe(9990);
  });

  it('have labels that differ, whatever is in the groups', () => {
    expect(distinct(['a', 'a', 'b'])).toEqual(['a', 'a (2)', 'b']);
    const { series } = frame('* | stats by (_time:1m, a, b) count() n', [{ _time: at(0), a: 'x, y', b: 'z', n: '1' }, { _time: at(0), a: 'x', b: 'y, z', n: '1' }, { _time: at(0), a: 'x', n: '1' }]);
    expect(new Set(series.map((one) => one.label)).size).toBe(3);
    expect(series.some((one) => one.label === 'x, (none)')).toBe(true);
  });

  it('keep their colour when their order changes, and levels and codes have their own', () => {
    const one = (label: string, field = 'path') => ({ label, group: new Map([[field, label]]) });
    const [a, b] = colorsOf([one('a'), one('b')], 'path');
    expect(colorsOf([one('b'), one('a')], 'path')).toEqual([b, a]);
    expect(colorsOf([one('error', '_level'), one('info', '_level')], '_level')).toEqual(['var(--level-error)', 'var(--level-info)']);
    expect(colorsOf([one('500', 'status')], 'status')).toEqual(['var(--status-5)']);
    expect(new Set(Array.from({ length: 24 }, (_, i) => paletteColor(i))).size).toBe(24);
  });
});

describe('lists', () => {
  it('add up buckets of counts, and keep the greatest of anything else', () => {
    const rows = [{ _time: at(0), path: '/a', n: '1', p: '5' }, { _time: at(1), path: '/a', n: '2', p: '4' }, { _time: at(1), path: '/b', n: '9', p: '1' }];
    const shape = shapeOf(rows, '* | stats by (_time:1m, path) count() n, avg(d) p');
    const [n, p] = shape.values;
    if (!n || !p) throw new Error('no columns');
    expect(slicesOf(rows, shape, n, 1)).toMatchObject({ slices: [{ label: '/b', size: 9 }], folded: 1, rest: 3 });
    expect(slicesOf(rows, shape, p, 5)).toMatchObject({ slices: [{ label: '/a', size: 5 }, { label: '/b', size: 1 }], folded: 0, rest: null });
  });
});

describe('distributions', () => {
  const h = (...ranges: [string, number][]): string => JSON.stringify(ranges.map(([vmrange, hits]) => ({ vmrange, hits })));
  const shapeWith = (rows: Row[], query: string): Shape => shapeOf(rows, query);

  it('have ranges in the order of their numbers, and every hit', () => {
    const rows = [{ h: h(['1.000e+01...1.136e+01', 5], ['1.000e+02...1.136e+02', 2], ['1.136e+01...1.292e+01', 3], ['0...1.000e-09', 1]) }];
    const bins = distributionOf(rows, shapeWith(rows, '* | stats histogram(d) h'), undefined);
    expect(bins.reduce((sum, bin) => sum + bin.hits, 0)).toBe(11);
    expect(bins[0]).toMatchObject({ from: 0, hits: 1 });
    for (let i = 1; i < bins.length; i++) expect(bins[i]?.from).toBeGreaterThanOrEqual(bins[i - 1]?.from ?? 0);
  });

  it('have few bins for wide ranges', () => {
    const rows = [{ h: h(['1.000e-03...1.136e-03', 1], ['1.000e+06...1.136e+06', 1], ['1.000e+18...+Inf', 1]) }];
    const bins = distributionOf(rows, shapeWith(rows, '* | stats histogram(d) h'), undefined);
    expect(bins.length).toBeLessThanOrEqual(42);
    expect(bins.reduce((sum, bin) => sum + bin.hits, 0)).toBe(3);
  });

  it('survive what is no histogram', () => {
    expect(rangesOf('[{"vmrange":"x","hits":1},{"hits":2},null,{"vmrange":"1...2","hits":-1}]')).toEqual([]);
    expect(rangesOf('{')).toEqual([]);
    expect(rangesOf('{}')).toEqual([]);
  });

  it('over time make a grid', () => {
    const rows = [{ _time: at(0), h: h(['1.000e+01...1.136e+01', 5]) }, { _time: at(2), h: h(['1.136e+01...1.292e+01', 3]) }];
    const grid = heatOf(rows, shapeWith(rows, '* | stats by (_time:1m) histogram(d_ms) h'), undefined, 'ms', 20, span(0, 3));
    expect(grid.rows.map((row) => row.cells)).toEqual([[5, 0, 0], [0, 0, 3]]);
    expect(grid.max).toBe(5);
    expect(grid.rows[0]?.label).toBe('10 ms – 11.4 ms');
  });

  it('of groups show the biggest, from the bottom', () => {
    const rows = [['a', 1], ['b', 5], ['c', 3]].map(([g, n]) => ({ _time: at(0), g: String(g), n: String(n) }));
    const shape = shapeWith(rows, '* | stats by (_time:1m, g) count() n');
    const grid = heatOf(rows, shape, shape.values[0], 'number', 2, null);
    expect(grid.rows.map((row) => row.label)).toEqual(['c', 'b']);
    expect(grid.folded).toBe(1);
  });

  it('name their ranges', () => {
    expect(binLabel({ from: 1000, to: 1136 }, 'ms')).toBe('1 s – 1.14 s');
    expect(binLabel({ from: 1e18, to: Infinity }, 'number')).toMatch(/^≥/);
  });
});

describe('the lines of a point', () => {
  const pipe = (query: string): StatsPipe => {
    const found = statsOf(query);
    if (!found) throw new Error(query);
    return found;
  };
  const group = (entries: Record<string, string>) => new Map(Object.entries(entries));

  it('are those of its group', () => {
    expect(linesQuery(pipe('_type:="json" | stats by (_time:5m, path) count() n'), { group: group({ path: '/a "b" | x' }), fn: null })).toBe('_type:="json" path:="/a \\"b\\" | x"');
    expect(linesQuery(pipe('* | stats by (path) count() n'), { group: group({ path: '' }), fn: null })).toBe('path:""');
    expect(linesQuery(pipe('* | stats count() n'), { group: null, fn: null })).toBe('');
    expect(linesQuery(pipe('a or b | stats by (p) count() n'), { group: group({ p: 'x' }), fn: null })).toBe('(a or b) p:="x"');
  });
  it('are in the range of its step', () => {
    expect(linesQuery(pipe('* | stats by (d:100) count() n'), { group: group({ d: '200' }), fn: null })).toBe('d:>=200 d:<300');
    expect(linesQuery(pipe('* | stats histogram(d) h'), { group: null, fn: null, range: { field: 'd', from: 10, to: 11.4 } })).toBe('d:>=10 d:<11.4');
    expect(linesQuery(pipe('* | stats histogram(d) h'), { group: null, fn: null, range: { field: 'd', from: 0, to: Infinity } })).toBe('');
  });
  it('fulfil the condition of the function, and keep pipes that made the fields', () => {
    const counted = pipe('a | extract "x=<x>" | stats by (x) count() if (status:>=500 or b) bad');
    expect(linesQuery(counted, { group: group({ x: '1' }), fn: counted.functions[0] ?? null })).toBe('a | extract "x=<x>" | filter x:="1" (status:>=500 or b)');
  });
  it('of a box are compared with those outside of it that have the field', () => {
    const at = { startMs: Date.parse('2026-11-02T10:00:00Z'), endMs: Date.parse('2026-11-02T10:05:00Z') };
    const time = '_time:[2026-11-02T10:00:00.000Z, 2026-11-02T10:05:00.000Z)';
    const heat = pipe('app:=shop | stats by (_time:1m) histogram(d) h');
    const range = [{ group: null, fn: null, range: { field: 'd', from: 200, to: 2000 } }];
    expect(explainQuery(heat, range, ['d'], at)).toBe(`app:=shop d:* | differences where (${time} d:>=200 d:<2000)`);
    expect(linesOfAny(heat, range)).toBe('app:=shop d:>=200 d:<2000');
    const grouped = pipe('* | stats by (_time:1m, host) count() n');
    const hosts = ['a', 'b'].map((host) => ({ group: group({ host }), fn: null }));
    expect(explainQuery(grouped, hosts, ['host'], at)).toBe(`host:* | differences where (${time} ((host:="a") or (host:="b")))`);
    expect(linesOfAny(grouped, [{ group: null, fn: null }])).toBe('');
  });
  it('are not known for a table made of another table', () => {
    expect(leadsToLines(statsOf('* | stats by (a) count() n | stats by (n) count() m'))).toBe(false);
    expect(leadsToLines(statsOf('*'))).toBe(false);
  });
});
