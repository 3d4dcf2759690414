import { expect, test } from 'vitest';
import { NO_OPTIONS } from '../../src/lib/chart/options';
import { CELL_LINES_MAX, CELLS_MAX, changeCell, exportNotebook, importNotebook, isNotebookFile, keep, moveCell, NEW_QUERY, notebookIdFor, readNotebook, tooLarge, withCells, withoutCell, writeNotebook, type Notebook } from '../../src/lib/chart/notebook';

const SPAN = { startMs: 1_000, endMs: 2_000 };
const EMPTY: Notebook = { id: '', title: 'Outage', version: 0, cells: [] };

function made(): Notebook {
  const kept = keep([{ _time: 't', n: '1' }], 'chart', 'q', SPAN, 3_000, true);
  return withCells(EMPTY, [
    { kind: 'text', text: '# Cause' },
    { ...NEW_QUERY, title: 'Errors', query: 'level:error', range: { kind: 'absolute', ...SPAN }, view: 'chart', options: { ...NO_OPTIONS, kind: 'bars' }, kept },
    { ...NEW_QUERY, range: { kind: 'all' } },
  ]);
}

test('a notebook is read as it was written', () => {
  const notebook = made();
  expect(notebook.cells.map(({ id }) => id)).toEqual(['1', '2', '3']);
  expect(readNotebook(JSON.parse(JSON.stringify(writeNotebook(notebook))))).toEqual(notebook);
  expect(importNotebook(exportNotebook({ ...notebook, id: '_notebook-x', version: 7 }))).toEqual(notebook);
  expect([isNotebookFile(exportNotebook(notebook)), isNotebookFile('{"panels":[]}'), isNotebookFile('null'), isNotebookFile('{')]).toEqual([true, false, false, false]);
});

test('what is no notebook says why, and what is broken in a cell becomes the default', () => {
  for (const [value, reason] of [
    [null, /object/],
    [{ cells: [] }, /title/],
    [{ title: 'a' }, /cells/],
    [{ title: 'a', cells: Array.from({ length: CELLS_MAX + 1 }, () => ({ kind: 'text', text: '' })) }, /at most 100 cells/],
    [{ title: 'a', cells: [{ kind: 'text', text: 'x' }, { kind: 'code' }] }, /Cell 2/],
    [{ title: 'a', cells: [{ kind: 'text', text: 'x'.repeat(20_001) }] }, /Cell 1/],
  ] as const) expect((readNotebook(value) as { error?: string }).error).toMatch(reason);
  expect((importNotebook('{') as { error?: string }).error).toMatch(/not JSON/);
  const odd = { kind: 'query', id: 'a', query: 'x', range: { kind: 'absolute', startMs: 5, endMs: 5 }, view: 'pie', kept: { atMs: 1, span: SPAN, query: 'x', rows: [{ n: 1, m: 'a' }, null, []], left: -3 } };
  const read = readNotebook({ title: 'a', cells: [odd, { ...odd, kept: { rows: [] } }] }) as Notebook;
  expect(read.cells.map(({ id }) => id)).toEqual(['a', "a'"]);
  expect(read.cells[0]).toMatchObject({ range: NEW_QUERY.range, view: 'lines', kept: { rows: [{ m: 'a' }], left: 0 } });
  expect(read.cells[1]).toMatchObject({ kept: null });
});

test('rows are kept within bounds, and a line without its bytes', () => {
  const line = { _time: 't', _msg: 'm', _line: '<13>m', _line_id: '1', _stream_id: 's' };
  expect(keep([line], 'lines', 'q', SPAN, 1).rows).toEqual([{ _time: 't', _msg: 'm', _line_id: '1' }]);
  expect(keep([{ _line: 'raw' }], 'lines', 'q', SPAN, 1).rows).toEqual([{ _line: 'raw' }]);
  const many = keep(Array.from({ length: CELL_LINES_MAX + 5 }, () => line), 'lines', 'q', SPAN, 1);
  expect([many.rows.length, many.left]).toEqual([CELL_LINES_MAX, 5]);
  expect(many.isCut).toBeUndefined();
  expect(keep([line], 'lines', 'q', SPAN, 1, true).isCut).toBe(true);
  const long = keep(Array.from({ length: 100 }, () => ({ _msg: 'x'.repeat(5_000) })), 'table', 'q', SPAN, 1);
  expect(long.rows[0]?.['_msg']).toHaveLength(2_000);
  expect(JSON.stringify(long.rows).length).toBeLessThan(66_000);
  expect(long.rows.length + long.left).toBe(100);
});

test('a notebook that is too large says what to do', () => {
  const cells = Array.from({ length: 60 }, () => ({ kind: 'text' as const, text: 'ä'.repeat(10_000) }));
  expect(tooLarge(withCells(EMPTY, cells.slice(0, 40)))).toBeNull();
  expect(tooLarge(withCells(EMPTY, cells))).toMatch(/Remove cells/);
});

test('cells are added, changed, moved and removed', () => {
  const ids = (notebook: Notebook): string => notebook.cells.map(({ id }) => id).join(' ');
  const notebook = made();
  expect(ids(withCells(notebook, [{ kind: 'text', text: 'a' }], 1))).toBe('1 4 2 3');
  expect(ids(withCells(withoutCell(notebook, '2'), [{ kind: 'text', text: 'a' }, { kind: 'text', text: 'b' }]))).toBe('1 3 4 5');
  expect([ids(moveCell(notebook, '1', 1)), ids(moveCell(notebook, '3', -9)), ids(moveCell(notebook, 'x', 1))]).toEqual(['2 1 3', '3 1 2', '1 2 3']);
  expect(changeCell(notebook, '1', { text: 'b' }).cells[0]).toEqual({ kind: 'text', id: '1', text: 'b' });
  expect(notebookIdFor('Disk full!', ['_notebook-disk-full'])).toBe('_notebook-disk-full-2');
});
