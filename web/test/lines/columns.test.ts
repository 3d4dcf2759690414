import { expect, test } from 'vitest';
import { addColumn, COLUMNS_MAX, DEFAULT_COLUMNS, fitWidths, formatColumns, hasColumn, moveColumn, parseColumns, removeColumn, resizeColumn, WIDTH_MAX, WIDTH_MIN } from '../../src/lib/lines/columns';

const fields = (columns: readonly { field: string }[]): string => columns.map(({ field }) => field).join(' ');

test.each([[[]], [[...DEFAULT_COLUMNS]], [[{ field: 'a,b:c"\\d', width: 100 }, { field: 'user.id', width: 60 }, { field: 'x:7', width: 44 }]]])('%j comes back from its text', (columns) => {
  expect(parseColumns(formatColumns(columns))).toEqual(columns);
});

test('the usual columns have a short text', () => expect(formatColumns(DEFAULT_COLUMNS)).toBe('_level,_type,_host,_app'));

test.each([
  ['a,a:9,b:99999,c:0', 'a c'],
  [',,a:x,d', 'd'],
  ['_time,_msg,_line,a', 'a'],
  [Array.from({ length: 99 }, (_, i) => `f${i}`).join(','), Array.from({ length: COLUMNS_MAX }, (_, i) => `f${i}`).join(' ')],
])('what is broken in %s is left out', (text, kept) => {
  const columns = parseColumns(text);
  expect(fields(columns)).toBe(kept);
  for (const { width } of columns) expect(width >= WIDTH_MIN && width <= WIDTH_MAX).toBe(true);
});

test('columns are added, moved, resized and removed', () => {
  const added = addColumn(DEFAULT_COLUMNS, 'path', ['/a', '/a/very/long/path/of/a/service']);
  expect(fields(added)).toBe('_level _type _host _app path');
  expect(added[4]?.width).toBeGreaterThan(addColumn([], 'n', ['1'])[0]?.width as number);
  expect(addColumn(added, 'path')).toEqual(added);
  expect(fields(moveColumn(added, 'path', 0))).toBe('path _level _type _host _app');
  expect(fields(moveColumn(added, '_level', 99))).toBe('_type _host _app path _level');
  expect(fields(moveColumn(added, 'none', 0))).toBe(fields(added));
  expect(resizeColumn(added, 'path', 5)[4]?.width).toBe(WIDTH_MIN);
  expect(fields(removeColumn(added, 'path'))).toBe(fields(DEFAULT_COLUMNS));
});

test('the host and the application have their columns already', () => {
  expect(hasColumn(DEFAULT_COLUMNS, 'hostname')).toBe(true);
  expect(addColumn(DEFAULT_COLUMNS, 'app_name')).toEqual([...DEFAULT_COLUMNS]);
  expect(fields(removeColumn(DEFAULT_COLUMNS, 'hostname'))).toBe('_level _type _app');
});

test('there are never more columns than fit', () => {
  let columns = [...DEFAULT_COLUMNS];
  for (let i = 0; i < 50; i++) columns = addColumn(columns, `f${i}`);
  expect(columns.length).toBe(COLUMNS_MAX);
  expect(columns[COLUMNS_MAX - 1]?.field).toBe('f49');
});

test('columns shrink before the message does', () => {
  const columns = [{ field: 'a', width: 300 }, { field: 'b', width: 100 }];
  expect(fitWidths(columns, 500)).toEqual([300, 100]);
  expect(fitWidths(columns, 200)).toEqual([150, 50]);
  expect(fitWidths(columns, -50)).toEqual([60, WIDTH_MIN]);
  expect(fitWidths([], 0)).toEqual([]);
});
