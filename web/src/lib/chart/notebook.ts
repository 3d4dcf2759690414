// Notebooks: documents of cells, each a text or a query with its own range, view, and the rows that were kept with it. Pure:
// reading, changing, writing them.
//
// A notebook is kept among the dashboards, under an id that begins with `_notebook-`: same rights, same limit of bytes.

import type { Row } from '../base/jsonl';
import type { Range, Span } from '../base/time';
import { idFor, IMPORT_BYTES_MAX, TEXT_CHARS_MAX, TITLE_CHARS_MAX } from './dashboards';
import { changedOptions, NO_OPTIONS, readOptions, type ChartOptions } from './options';

export const NOTEBOOK_PREFIX = '_notebook-';
export const CELLS_MAX = 100;
/** The server refuses documents of more than 1 MiB. */
export const NOTEBOOK_BYTES_MAX = 1_000_000;
/** Lines that are shown in a cell, and kept with it; rows of other results. */
export const CELL_LINES_MAX = 200;
export const CELL_ROWS_MAX = 2_000;
/** Bytes of the rows that are kept with a cell, about. */
const KEPT_BYTES_MAX = 64 * 1024;
const VALUE_CHARS_MAX = 2_000;
const QUERY_CHARS_MAX = 100_000;

export const CELL_VIEWS = ['lines', 'table', 'chart'] as const;
export type CellView = (typeof CELL_VIEWS)[number];

/** The answer to a query, as it was. */
export interface Kept {
  atMs: number;
  span: Span;
  /** The query as it was sent, with its buckets of time. */
  query: string;
  rows: Row[];
  /** Rows of the answer that were not kept. */
  left: number;
  /** The answer was the beginning of a longer one. */
  isCut?: true;
}

export interface TextCell {
  kind: 'text';
  id: string;
  text: string;
}

export interface QueryCell {
  kind: 'query';
  id: string;
  title: string;
  query: string;
  range: Range;
  view: CellView;
  options: ChartOptions;
  /** Null if the query is asked whenever the notebook is read. */
  kept: Kept | null;
}

export type Cell = TextCell | QueryCell;
type Distribute<T> = T extends Cell ? Omit<T, 'id'> : never;
export type NewCell = Distribute<Cell>;

export interface Notebook {
  /** Empty for one that was never saved. */
  id: string;
  title: string;
  /** The version that was read; the server refuses a change of another one. 0 for a new notebook. */
  version: number;
  cells: Cell[];
  /** It is a file of the server, and cannot be changed here. */
  provided?: true;
}

/** A cell of a query, as somebody begins it. */
export const NEW_QUERY: Omit<QueryCell, 'id'> = { kind: 'query', title: '', query: '*', range: { kind: 'relative', ms: 3_600_000 }, view: 'lines', options: NO_OPTIONS, kept: null };

type Members = Record<string, unknown>;

function text(value: unknown, max: number): string | null {
  return typeof value === 'string' && value.length <= max ? value : null;
}

function instant(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && Math.abs(value) < 8.64e15 ? value : null;
}

function readSpan(value: unknown): Span | null {
  const of = (value ?? {}) as Members;
  const [startMs, endMs] = [instant(of['startMs']), instant(of['endMs'])];
  return startMs !== null && endMs !== null && endMs > startMs ? { startMs, endMs } : null;
}

function readRange(value: unknown): Range {
  const of = (value ?? {}) as Members;
  const ms = instant(of['ms']);
  if (of['kind'] === 'all') return { kind: 'all' };
  if (of['kind'] === 'absolute') {
    const span = readSpan(of);
    if (span) return { kind: 'absolute', ...span };
  }
  return of['kind'] === 'relative' && ms !== null && ms > 0 ? { kind: 'relative', ms } : NEW_QUERY.range;
}

function readRow(value: unknown): Row | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  return Object.fromEntries(Object.entries(value).filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}

function readKept(value: unknown): Kept | null {
  const of = (value ?? {}) as Members;
  const [atMs, span, rows, query] = [instant(of['atMs']), readSpan(of['span']), of['rows'], text(of['query'], QUERY_CHARS_MAX)];
  if (atMs === null || span === null || query === null || !Array.isArray(rows)) return null;
  const read = rows.slice(0, CELL_ROWS_MAX).map(readRow);
  return { atMs, span, query, rows: read.filter((row) => row !== null), left: Math.max(0, instant(of['left']) ?? 0), ...(of['isCut'] === true ? { isCut: true } : {}) };
}

function readCell(value: unknown, at: number): Cell | null {
  if (typeof value !== 'object' || value === null) return null;
  const of = value as Members;
  const id = text(of['id'], 100) || String(at + 1);
  if (of['kind'] === 'text') {
    const written = text(of['text'], TEXT_CHARS_MAX);
    return written === null ? null : { kind: 'text', id, text: written };
  }
  const query = text(of['query'], QUERY_CHARS_MAX);
  if (of['kind'] !== 'query' || query === null) return null;
  const view = of['view'] as CellView;
  return {
    kind: 'query',
    id,
    title: text(of['title'], TITLE_CHARS_MAX) ?? '',
    query,
    range: readRange(of['range']),
    view: CELL_VIEWS.includes(view) ? view : 'lines',
    options: readOptions(of['options']),
    kept: of['kept'] == null ? null : readKept(of['kept']),
  };
}

/** A notebook from a document; an error that says what is wrong with it if it is none. */
export function readNotebook(value: unknown): Notebook | { error: string } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { error: 'A notebook is a JSON object with “title” and “cells”.' };
  const of = value as Members;
  const title = text(of['title'], TITLE_CHARS_MAX)?.trim();
  if (!title) return { error: `“title” must be a text of 1 to ${TITLE_CHARS_MAX} characters.` };
  const list = of['cells'];
  if (!Array.isArray(list)) return { error: '“cells” must be a list.' };
  if (list.length > CELLS_MAX) return { error: `A notebook has at most ${CELLS_MAX} cells; this one has ${list.length}.` };
  const cells = list.map(readCell);
  const wrong = cells.indexOf(null);
  if (wrong >= 0) return { error: `Cell ${wrong + 1} is neither a text nor a query.` };
  const seen = new Set<string>();
  for (const cell of cells as Cell[]) {
    while (seen.has(cell.id)) cell.id += "'";
    seen.add(cell.id);
  }
  const version = of['version'];
  return { id: text(of['id'], 120) ?? '', title, version: typeof version === 'number' && Number.isSafeInteger(version) ? version : 0, cells: cells as Cell[], ...(of['provided'] === true ? { provided: true } : {}) };
}

/** The document that is saved and exported. It has no panels: to a dashboard, it is empty. */
export function writeNotebook({ id, title, version, cells }: Notebook): Record<string, unknown> {
  const written = cells.map((cell) => (cell.kind === 'text' ? cell : { ...cell, options: changedOptions(cell.options) }));
  return { id, title, version, panels: [], cells: written };
}

/** Why a notebook cannot be saved; null if it can. */
export function tooLarge(notebook: Notebook): string | null {
  const bytes = new TextEncoder().encode(JSON.stringify(writeNotebook(notebook))).length;
  if (bytes <= NOTEBOOK_BYTES_MAX) return null;
  return `This notebook has ${Math.ceil(bytes / 1000)} KB, and ${NOTEBOOK_BYTES_MAX / 1000} KB can be saved. Remove cells, or keep fewer results.`;
}

/** A notebook from the text of a file. It is a new one: an import never replaces what is there. */
export function importNotebook(file: string): Notebook | { error: string } {
  if (file.length > IMPORT_BYTES_MAX) return { error: 'The file is larger than 4 MiB.' };
  let value: unknown;
  try {
    value = JSON.parse(file);
  } catch {
    return { error: 'The file is not JSON.' };
  }
  const read = readNotebook(value);
  if ('error' in read) return read;
  const { provided: _, ...own } = read;
  return { ...own, id: '', version: 0 };
}

/** Whether the text of a file is meant to be a notebook, and not a dashboard. */
export function isNotebookFile(file: string): boolean {
  try {
    const value = JSON.parse(file) as Members | null;
    return typeof value === 'object' && value !== null && Array.isArray(value['cells']);
  } catch {
    return false;
  }
}

export function exportNotebook(notebook: Notebook): string {
  return `${JSON.stringify(writeNotebook({ ...notebook, id: '', version: 0 }), null, 2)}\n`;
}

/** An id for a new notebook, from its title, that none of the others has. */
export function notebookIdFor(title: string, taken: readonly string[]): string {
  const bare = taken.map((id) => id.replace(NOTEBOOK_PREFIX, ''));
  return `${NOTEBOOK_PREFIX}${idFor(title, bare)}`;
}

/** Rows as they are kept: as many as fit, with long values cut. A line is kept as its message and fields, not as its bytes too. */
export function keep(rows: readonly Row[], view: CellView, query: string, span: Span, atMs: number, isCut = false): Kept {
  const most = view === 'lines' ? CELL_LINES_MAX : CELL_ROWS_MAX;
  const kept: Row[] = [];
  let bytes = 0;
  for (const row of rows.slice(0, most)) {
    const isLine = (row['_msg'] ?? '') !== '';
    const fields = Object.entries(row).filter(([name]) => name !== '_stream_id' && !(isLine && name === '_line'));
    const short: Row = Object.fromEntries(fields.map(([name, value]) => [name, value.slice(0, VALUE_CHARS_MAX)]));
    bytes += JSON.stringify(short).length;
    if (bytes > KEPT_BYTES_MAX) break;
    kept.push(short);
  }
  return { atMs, span, query, rows: kept, left: rows.length - kept.length, ...(isCut ? { isCut: true } : {}) };
}

/** Adds cells at the end, or at a place. */
export function withCells(notebook: Notebook, cells: readonly NewCell[], at = notebook.cells.length): Notebook {
  const ids = new Set(notebook.cells.map((one) => one.id));
  let number = notebook.cells.length;
  const named = cells.map((cell): Cell => {
    do number++;
    while (ids.has(String(number)));
    return { ...cell, id: String(number) };
  });
  return { ...notebook, cells: [...notebook.cells.slice(0, at), ...named, ...notebook.cells.slice(at)] };
}

export function changeCell<T extends Cell>(notebook: Notebook, id: string, change: Partial<Omit<T, 'id' | 'kind'>>): Notebook {
  return { ...notebook, cells: notebook.cells.map((cell) => (cell.id === id ? ({ ...cell, ...change } as Cell) : cell)) };
}

export function withoutCell(notebook: Notebook, id: string): Notebook {
  return { ...notebook, cells: notebook.cells.filter((cell) => cell.id !== id) };
}

/** Moves a cell by a number of places, at most to the first or last one. */
export function moveCell(notebook: Notebook, id: string, by: number): Notebook {
  const from = notebook.cells.findIndex((cell) => cell.id === id);
  const to = Math.max(0, Math.min(notebook.cells.length - 1, from + by));
  if (from < 0 || from === to) return notebook;
  const cells = [...notebook.cells];
  cells.splice(to, 0, ...cells.splice(from, 1));
  return { ...notebook, cells };
}
