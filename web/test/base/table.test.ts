import { describe, expect, test } from 'vitest';
import { columnsOf, defaultOrder, showCell, showNumber, showTime, sorted, zonesOf, type Column } from '../../src/lib/base/table';
import type { Row } from '../../src/lib/base/jsonl';

describe('what a cell shows', () => {
  test.each([
    ['234.123456789012', '234.12'],
    ['1234567', '1,234,567'],
    ['-1234.5', '-1,234.5'],
    ['0.000123456789', '0.000123'],
    ['0.123456789', '0.123'],
    ['0', '0'],
    ['100', '100'],
    ['1e21', '1e21'],
    ['12345678901234567890', '12345678901234567890'],
    ['.5', '0.5'],
    ['x', 'x'],
    ['', ''],
  ])('%s is %s', (text, shown) => expect(showNumber(text, false)).toBe(shown));

  test('a key stays as it is', () => expect(showNumber('9514', true)).toBe('9514'));

  test('the zone of a column is that of its times, and not that of now', () => {
    const zone = process.env['TZ'];
    process.env['TZ'] = 'Europe/Berlin';
    try {
      const rows: Row[] = [{ _time: '2026-07-01T10:00:00Z' }, { _time: '' }, { _time: '2026-07-02T10:00:00Z' }];
      expect(zonesOf(rows, '_time', false)).toBe('UTC+02:00');
      expect(zonesOf([...rows, { _time: '2026-12-01T10:00:00Z' }], '_time', false)).toBe('UTC+02:00 and UTC+01:00');
      expect(zonesOf(rows, '_time', true)).toBe('UTC');
    } finally {
      if (zone === undefined) delete process.env['TZ'];
      else process.env['TZ'] = zone;
    }
  });

  test('times are in the zone of the page and short', () => {
    expect(showTime('2026-11-21T21:36:30Z', true)).toBe('2026-11-21 21:36:30');
    expect(showTime('2026-11-21T21:36:30.000000000Z', true)).toBe('2026-11-21 21:36:30');
    expect(showTime('2026-11-21T21:36:30.123456789Z', true)).toBe('2026-11-21 21:36:30.123');
    expect(showTime('2026-11-21T23:36:30.5+02:00', true)).toBe('2026-11-21 21:36:30.500');
    const local = new Date(Date.UTC(2026, 10, 21, 21, 36, 30));
    expect(showTime('2026-11-21T21:36:30Z', false)).toContain(String(local.getHours()).padStart(2, '0') + ':');
  });
});

const column = (name: string, kind: Column['kind'], isKey = false): Column => ({ name, kind, isKey });

describe('columns and order', () => {
  const rows: Row[] = [
    { host: 'b', n: '9', mean: '1.5', at: '2026-01-01T00:05:00Z' },
    { host: 'a', n: '10', mean: '', at: '2026-01-01T00:00:00Z' },
    { host: 'c2', n: '1e1', at: '2026-01-01T00:10:00.000000001Z' },
    { host: 'c10', n: '-3', mean: '2', at: '2026-01-01T00:10:00Z' },
  ];

  test('the type of a column is that of all its values; missing ones are ignored', () => {
    expect(columnsOf(rows, new Set(['host']))).toEqual([column('host', 'text', true), column('n', 'number'), column('mean', 'number'), column('at', 'time')]);
    expect(columnsOf([{ a: '' }, { a: '1', b: 'x' }, { b: '2' }], new Set())).toEqual([column('a', 'number'), column('b', 'text')]);
  });

  test('an average of nothing leaves its column numeric and is sorted last', () => {
    const rows = [{ mean: 'NaN' }, { mean: '2.345678' }, { mean: '+Inf' }, { mean: '10' }];
    const [mean] = columnsOf(rows, new Set());
    expect(mean).toEqual(column('mean', 'number'));
    for (const descending of [true, false]) {
      const shown = sorted(rows, mean!, descending).map((row) => showCell(mean!, row['mean'], true));
      expect(shown).toEqual(descending ? ['10', '2.35', '–', '–'] : ['2.35', '10', '–', '–']);
    }
    expect(columnsOf([{ x: 'NaN' }], new Set())[0]?.kind).toBe('number');
    expect(columnsOf([{ x: 'NaN' }, { x: 'none' }], new Set())[0]?.kind).toBe('text');
  });

  test.each<[Column, boolean, string[]]>([
    [column('n', 'number'), true, ['a', 'c2', 'b', 'c10']],
    [column('n', 'number'), false, ['c10', 'b', 'a', 'c2']],
    [column('mean', 'number'), true, ['c10', 'b', 'a', 'c2']],
    [column('mean', 'number'), false, ['b', 'c10', 'a', 'c2']],
    [column('host', 'text'), false, ['a', 'b', 'c2', 'c10']],
    [column('at', 'time'), false, ['a', 'b', 'c10', 'c2']],
  ])('%o descending %s', (by, descending, hosts) => expect(sorted(rows, by, descending).map((row) => row['host'])).toEqual(hosts));

  test('without an order of the query: by time, else the biggest count first, else unchanged', () => {
    expect(defaultOrder([column('host', 'text', true), column('at', 'time', true), column('n', 'number')])).toEqual({ column: 'at', descending: false });
    expect(defaultOrder([column('status', 'number', true), column('n', 'number')])).toEqual({ column: 'n', descending: true });
    expect(defaultOrder([column('a', 'text'), column('n', 'number')])).toBeNull();
  });
});
