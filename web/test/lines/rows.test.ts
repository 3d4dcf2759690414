import { describe, expect, test } from 'vitest';
import type { Row } from '../../src/lib/base/jsonl';
import { canFilter, clip, fieldsOf, hasOtherDays, keepFurther, keysOf, messageOf, pageBehind, reuseRows, rowKey } from '../../src/lib/lines/rows';
import { timeToNs } from '../../src/lib/base/time';

/** Pages as the server returns them: in the order of the store, within a range, some skipped. */
function page(store: readonly Row[], from: { startNs?: bigint; endNs?: bigint; offset: number }, limit: number): Row[] {
  const ns = (row: Row): bigint => timeToNs(row['_time']!) as bigint;
  return store.filter((row) => (from.endNs === undefined || ns(row) < from.endNs) && (from.startNs === undefined || ns(row) >= from.startNs)).slice(from.offset, from.offset + limit);
}

describe.each([false, true])('further pages, oldest first: %s', (oldestFirst) => {
  // From one time shared by all lines to a time for each, with and without a fraction.
  test.each([1, 2, 3, 7, 50, 1000])('%i different times', (times) => {
    const store = Array.from({ length: 437 }, (_, i) => {
      const at = Math.floor((i * times) / 437);
      const fraction = at % 3 === 0 ? '' : `.${String(999_999_999 - at).padStart(9, '0')}`;
      return { _time: `2026-01-31T12:00:00${fraction}Z`, _line_id: String(i) };
    }).sort((a, b) => Number((timeToNs(b._time) as bigint) - (timeToNs(a._time) as bigint)) * (oldestFirst ? -1 : 1));
    for (const limit of [1, 10, 100]) {
      let rows = page(store, { offset: 0 }, limit);
      for (;;) {
        const more = page(store, pageBehind(rows, oldestFirst)!, limit);
        rows = [...rows, ...more];
        if (more.length < limit) break;
      }
      expect(rows.map((row) => row['_line_id'])).toEqual(store.map((row) => row._line_id));
    }
  });

  test('without a time there is no further page', () => {
    expect(pageBehind([], oldestFirst)).toBeNull();
    expect(pageBehind([{ lines: '3' }], oldestFirst)).toBeNull();
  });
});

test('a refresh keeps the rows that are there, each once', () => {
  const [a, b] = [{ _line_id: '1', x: 'old' }, { _line_id: '2' }];
  const kept = reuseRows([a, b], [{ _line_id: '3' }, { _line_id: '1', x: 'new' }, { _line_id: '1' }, { y: '' }]);
  expect(kept[1]).toBe(a);
  expect(kept[2]).not.toBe(a);
  expect(new Set(kept).size).toBe(4);
});

test('a line without a message shows its fields', () => {
  expect(messageOf({ _time: 't', _type: 'json', level: 'info', a: '1', b: '2' })).toBe('a=1 b=2');
  expect(messageOf({ _msg: 'hello', a: '1' })).toBe('hello');
});

test('fields in reading order, internals last and unfilterable', () => {
  const names = fieldsOf({ _line_id: '1', zeta: '', _line: '', hostname: '', _msg: '', alpha: '', _time: '' }).map(([name]) => name);
  expect(names).toEqual(['_time', '_msg', 'hostname', 'alpha', 'zeta', '_line_id']);
  expect(names.filter(canFilter)).toEqual(['_msg', 'hostname', 'alpha', 'zeta']);
});

test('long text is cut with a note', () => {
  expect(clip('abc', 3)).toBe('abc');
  expect(clip('abcd', 3)).toBe('abc… (1 more characters)');
});

test('rows without an id have a key too', () => {
  expect(rowKey({ _time: 't', _msg: 'm' })).toBe('t  m');
  expect(rowKey({ _line_id: '1-2' })).toBe('1-2');
});

test('a refresh of the first page keeps the further ones', () => {
  const ids = (rows: readonly Row[]): string => rows.map((row) => row['_line_id']).join('');
  const rows = (text: string): Row[] => [...text].map((id) => ({ _line_id: id }));
  expect(ids(keepFurther(rows('defgh'), rows('bcde')))).toBe('bcdefgh');
  // No overlap: a gap must not be hidden.
  expect(ids(keepFurther(rows('defgh'), rows('abc')))).toBe('abc');
  expect(ids(keepFurther(rows('defgh'), []))).toBe('');
});

test('each row has a key of its own', () => {
  const same = { _time: 't', _msg: 'x' };
  expect(new Set(keysOf([same, { ...same }, { _line_id: '1' }, { _line_id: '1' }])).size).toBe(4);
});

test('a line of another day is seen wherever it stands', () => {
  const rows = ['2026-01-31T10:00:00Z', '2026-01-30T23:59:59.5Z', '2026-01-31T11:00:00Z'].map((_time) => ({ _time }));
  const noon = Date.UTC(2026, 0, 31, 12);
  expect(hasOtherDays(rows, noon, true)).toBe(true);
  expect(hasOtherDays([rows[0], rows[2]].filter((row) => row !== undefined), noon, true)).toBe(false);
  expect(hasOtherDays([], noon, true)).toBe(false);
});
