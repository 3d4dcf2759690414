import { describe, expect, test } from 'vitest';
import { chosenFields, fieldNames, GROUPS_MAX, keyFields, latestRows, numberOf, OTHER, rowBuckets, rowSeries, rowStep } from '../../src/lib/programs/programRows';
import type { Fields, ProgramRow } from '../../src/lib/api/programs';
import { countKinds, diffRows } from '../../src/lib/programs/rowDiff';

const START = Date.parse('2026-01-01T00:00:00Z');
const at = (seconds: number): string => new Date(START + seconds * 1000).toISOString();
const row = (seconds: number, fields: Fields, place = 0): ProgramRow => ({ time: at(seconds), revision: 1, row: place, fields });

describe('fields', () => {
  test('numbers and names, in their order', () => {
    const names = fieldNames([{ class: '2xx', lines: 3, status: '200' }, { class: null, lines: 1.5, note: '' }]);
    expect(names).toEqual({ all: ['class', 'lines', 'status', 'note'], numbers: ['lines'], texts: ['class', 'status', 'note'] });
  });
  test('texts that are numbers count if there is no other number, except keys', () => {
    expect(fieldNames([{ status: '200', n: '5' }]).numbers).toEqual(['status', 'n']);
    expect(fieldNames([{ status: '200', n: '5' }], new Set(['status']))).toMatchObject({ numbers: ['n'], texts: ['status'] });
  });
  test('values', () => expect([1, '1e3', ' 1', '', null, true, NaN, undefined].map((value) => numberOf(value))).toEqual([1, 1000, null, null, null, null, null, null]));

  test.each([
    ['a status code', [row(0, { status: 200, n: 1 }), row(0, { status: 404, n: 1 })], ['status']],
    ['a status code behind a sum', [row(0, { bytes: 9, status: 200 }), row(0, { bytes: 8, status: 404 }, 1), row(10, { bytes: 7, status: 200 })], ['status']],
    ['in one bucket', [row(0, { bytes: 9, status: 200 }), row(0, { bytes: 8, status: 404 }, 1)], ['status']],
    ['one row each bucket', [row(0, { n: 1, bytes: 2 }), row(10, { n: 1, bytes: 3 })], []],
    ['a text names them', [row(0, { n: 1, who: 'a', m: 2 }), row(0, { n: 2, who: 'b', m: 2 })], []],
    ['the same twice', [row(0, { n: 1, m: 2 }), row(0, { n: 1, m: 2 })], []],
    ['one number alone', [row(0, { n: 1 }), row(0, { n: 2 })], []],
  ])('numbers that name rows: %s', (_what, rows, expected) => expect([...keyFields(rows)]).toEqual(expected));

  const names = { all: ['a', 'b', 'n', 'm'], numbers: ['n', 'm'], texts: ['a', 'b'] };
  test.each([
    [null, null, { value: 'n', split: 'a' }],
    ['m', 'b', { value: 'm', split: 'b' }],
    ['gone', 'gone', { value: 'n', split: 'a' }],
    ['n', '', { value: 'n', split: null }],
    ['n', 'n', { value: 'n', split: null }],
  ])('chosen %s by %s', (value, split, expected) => expect(chosenFields(names, value, split)).toEqual(expected));
  test('rows without a number', () => expect(chosenFields({ all: ['a'], numbers: [], texts: ['a'] }, null, null)).toEqual({ value: null, split: 'a' }));
});

describe('bars', () => {
  test('are whole buckets, and not too many', () => {
    for (const bucketMs of [1000, 9000, 10_000, 40_000, 60_000, 3_600_000]) {
      for (let width = 1000; width < 3e10; width *= 1.7) {
        const step = rowStep({ startMs: 0, endMs: width }, bucketMs, 120);
        expect(step % bucketMs).toBe(0);
        expect(width / step).toBeLessThanOrEqual(120);
      }
    }
    expect(rowStep({ startMs: 0, endMs: 3_600_000 }, 10_000, 120)).toBe(30_000);
  });
});

describe('series', () => {
  const buckets = rowBuckets({ startMs: START, endMs: START + 60_000 }, 10_000);
  test('rows of a bar are added up, the biggest group first', () => {
    const series = rowSeries([row(0, { class: '2xx', n: 1 }), row(5, { class: '2xx', n: 2 }), row(10, { class: '5xx', n: 9 }), row(-1, { class: '2xx', n: 99 })], buckets, 'n', 'class');
    expect(series.map(({ key, values }) => [key, [...values]])).toEqual([['=5xx', [0, 9, 0, 0, 0, 0]], ['=2xx', [3, 0, 0, 0, 0, 0]]]);
  });
  test('not split', () => expect(rowSeries([row(0, { n: 1 }), row(1, { n: '2' }), row(2, { n: 'x' })], buckets, 'n', null)).toMatchObject([{ label: 'n', values: [3, 0, 0, 0, 0, 0] }]));
  test.each([
    [['200', '500', '404'], ['500', '404', '200'], 'status-5'],
    [['2xx', '5xx'], ['5xx', '2xx'], 'status-5'],
    [['info', 'err', 'warning'], ['err', 'warning', 'info'], 'level-error'],
    [['info', 'web1'], ['info', 'web1'], 'group-1'],
    [['500', ''], ['500', '(none)'], 'group-1'],
  ])('of %j the worst is at the baseline', (groups, labels, color) => {
    const series = rowSeries(groups.map((who, i) => row(0, { who, n: 9 - i })), buckets, 'n', 'who');
    expect(series.map((one) => one.label)).toEqual(labels);
    expect(series[0]?.color).toContain(color);
  });
  test('further groups are one', () => {
    const rows = Array.from({ length: 12 }, (_, i) => row(0, { who: i === 3 ? 'other' : `g${i}`, n: 100 - i }));
    const series = rowSeries(rows, buckets, 'n', 'who');
    expect(series).toHaveLength(GROUPS_MAX + 1);
    expect(series.at(-1)).toMatchObject({ key: OTHER, label: 'other (4)', values: [92 + 91 + 90 + 89, 0, 0, 0, 0, 0] });
    expect(new Set(series.map((one) => one.key)).size).toBe(series.length);
  });
});

test('the latest buckets are whole', () => {
  const rows = [row(0, { n: 1 }), row(10, { n: 2 }, 1), row(10, { n: 3 }, 0), row(20, { n: 4 })];
  expect(latestRows(rows, 3).map((one) => one.fields['n'])).toEqual([4, 3, 2]);
  expect(latestRows(rows, 1).map((one) => one.fields['n'])).toEqual([4]);
  expect(latestRows([row(0, { n: 1 }), row(0, { n: 2 }, 1)], 1)).toHaveLength(2);
});

describe('before and after', () => {
  test('rows are paired by their names', () => {
    const before = [row(0, { class: '2xx', n: 1 }, 0), row(0, { class: '5xx', n: 2 }, 1), row(10, { class: '2xx', n: 5 })];
    const after = [row(0, { class: '5xx', n: 3 }, 0), row(0, { class: '2xx', n: 1 }, 1), row(20, { class: '2xx', n: 7 })];
    const pairs = diffRows(before, after);
    expect(pairs.map(({ kind, before, after }) => [kind, before?.fields['n'], after?.fields['n']])).toEqual([
      ['changed', 2, 3],
      ['same', 1, 1],
      ['removed', 5, undefined],
      ['added', undefined, 7],
    ]);
    expect([...(pairs[0]?.changed ?? [])]).toEqual(['n']);
    expect(countKinds(pairs)).toEqual({ same: 1, changed: 1, added: 1, removed: 1 });
  });
  test('a field more or less is a change', () => {
    const [pair] = diffRows([row(0, { n: 1 })], [row(0, { n: 1, m: 2 })]);
    expect(pair).toMatchObject({ kind: 'changed', changed: new Set(['m']) });
  });
  test('the same time in two forms is the same time', () => {
    const [pair] = diffRows([{ ...row(0, { n: 1 }), time: '2026-01-01T00:00:00Z' }], [{ ...row(0, { n: 1 }), time: '2026-01-01T00:00:00.000000000Z' }]);
    expect(pair?.kind).toBe('same');
  });
  test('a number that names rows pairs them', () => {
    const before = [row(0, { status: 200, n: 1 }), row(0, { status: 404, n: 2 }, 1)];
    const after = [row(0, { status: 404, n: 3 }), row(0, { status: 200, n: 1 }, 1)];
    expect(diffRows(before, after).map((pair) => pair.kind)).toEqual(['changed', 'same']);
  });
  test('rows without names are paired in their order', () => {
    expect(diffRows([row(0, { n: 1 }), row(0, { n: 2 }, 1)], [row(0, { n: 1 })]).map((pair) => pair.kind)).toEqual(['same', 'removed']);
  });
});
