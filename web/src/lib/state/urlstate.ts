// The state of the page as a query string: every view can be shared as a link, and back and forward work.
//
// Defaults are left out, so that a bare `/` is the start page. Unknown or broken parameters fall back to the default
// instead of failing: a link from an older or newer page still opens.

import { NO_OPTIONS, optionsFromParams, writeOptions, type ChartOptions } from '../chart/options';
import { formatColumns, parseColumns, type Column } from '../lines/columns';
import { chosenFrom, writeChosen, type Chosen } from '../query/variables';
import { DEFAULT_RANGE, formatDuration, parseDuration, parseInstant, type Range } from '../base/time';

export const VIEWS = ['lines', 'dashboards', 'summary', 'alerts', 'programs', 'queries', 'status'] as const;
export type View = (typeof VIEWS)[number];

/** The parts of the page of a program: its rows, its text, computing them again. */
export const PROGRAM_PARTS = ['rows', 'edit', 'rerun'] as const;
export type ProgramPart = (typeof PROGRAM_PARTS)[number];

export const REFRESH_S = [0, 5, 10, 30] as const;

/** More pinned fields leave no room for others; a further one replaces the last. */
export const PINNED_MAX = 8;

export interface ViewState {
  view: View;
  /** LogsQL; empty means every line. */
  query: string;
  range: Range;
  /** Seconds between automatic runs; 0 is off. */
  refreshS: number;
  /** Live tail instead of the newest lines. */
  tail: boolean;
  /** Oldest lines first. */
  oldestFirst: boolean;
  /** The columns of lines; null for those of the browser. */
  columns: readonly Column[] | null;
  /** Fields that stand first beside messages and among the fields, whatever their values. */
  pinned: readonly string[];
  /** How the table of a query is shown. */
  chart: ChartOptions;
  /** The dashboard that is shown; null for the list of dashboards. */
  dashboard: string | null;
  /** The chosen values of its variables. */
  variables: Chosen;
  /** Without the head of the page, for a frame in another page. */
  embed: boolean;
  /** The file of rules that is edited, `''` for a new one; null for the list of rules. */
  rules: string | null;
  /** The type the summary is narrowed to. */
  type: string | null;
  /** The line (`_line_id`) whose surrounding lines are shown. */
  context: string | null;
  /** The field whose value those lines share; null for the stream. */
  contextBy: string | null;
  /** The trace, request or session whose lines are shown, as `field=value`. */
  trace: string | null;
  /** The background query whose rows are shown. */
  results: string | null;
  /** The program that is shown; null for the list of programs, and for a new program. */
  program: string | null;
  part: ProgramPart;
  /** The example that a new program begins with. */
  example: string | null;
  /** The field of rows whose values a chart adds up, and the one that splits them; null for the first that fits, `''` for none. */
  value: string | null;
  split: string | null;
}

export const START: ViewState = {
  view: 'lines',
  query: '',
  range: DEFAULT_RANGE,
  refreshS: 0,
  tail: false,
  oldestFirst: false,
  columns: null,
  pinned: [],
  chart: NO_OPTIONS,
  dashboard: null,
  variables: {},
  embed: false,
  rules: null,
  type: null,
  context: null,
  contextBy: null,
  trace: null,
  results: null,
  program: null,
  part: 'rows',
  example: null,
  value: null,
  split: null,
};

/** No program chosen: what links into and out of the view *Programs* reset. */
export const NO_PROGRAM = { program: null, part: 'rows', example: null, value: null, split: null } as const satisfies Partial<ViewState>;

export function toSearch(state: ViewState): string {
  const params = new URLSearchParams();
  if (state.view !== START.view) params.set('view', state.view);
  if (state.query !== '') params.set('query', state.query);
  writeRange(params, state.range);
  if (state.refreshS !== 0) params.set('refresh', String(state.refreshS));
  if (state.tail) params.set('tail', '1');
  if (state.oldestFirst) params.set('order', 'oldest');
  if (state.columns !== null) params.set('cols', formatColumns(state.columns));
  for (const field of state.pinned) params.append('pin', field);
  writeOptions(params, state.chart);
  if (state.dashboard !== null) params.set('dashboard', state.dashboard);
  writeChosen(params, state.variables);
  if (state.embed) params.set('embed', '1');
  if (state.rules !== null) params.set('rules', state.rules);
  if (state.type !== null) params.set('type', state.type);
  if (state.context !== null) params.set('context', state.context);
  if (state.contextBy !== null) params.set('by', state.contextBy);
  if (state.trace !== null) params.set('trace', state.trace);
  if (state.results !== null) params.set('results', state.results);
  if (state.program !== null) params.set('program', state.program);
  if (state.part !== START.part) params.set('part', state.part);
  if (state.example !== null) params.set('example', state.example);
  if (state.value !== null) params.set('value', state.value);
  if (state.split !== null) params.set('split', state.split);
  const text = params.toString();
  return text === '' ? '' : `?${text}`;
}

export function fromSearch(search: string): ViewState {
  const params = new URLSearchParams(search);
  const view = params.get('view');
  const part = params.get('part');
  const cols = params.get('cols');
  const refreshS = Number(params.get('refresh') ?? 0);
  return {
    view: (VIEWS as readonly string[]).includes(view ?? '') ? (view as View) : START.view,
    query: params.get('query') ?? '',
    range: readRange(params),
    refreshS: (REFRESH_S as readonly number[]).includes(refreshS) ? refreshS : 0,
    tail: params.get('tail') === '1',
    oldestFirst: params.get('order') === 'oldest',
    columns: cols === null ? null : parseColumns(cols),
    pinned: [...new Set(params.getAll('pin').filter((field) => field !== ''))].slice(0, PINNED_MAX),
    chart: optionsFromParams(params),
    dashboard: params.get('dashboard'),
    variables: chosenFrom(params),
    embed: params.get('embed') === '1',
    rules: params.get('rules'),
    type: params.get('type'),
    context: params.get('context'),
    contextBy: params.get('by'),
    trace: params.get('trace'),
    results: params.get('results'),
    program: params.get('program'),
    part: (PROGRAM_PARTS as readonly string[]).includes(part ?? '') ? (part as ProgramPart) : START.part,
    example: params.get('example'),
    value: params.get('value'),
    split: params.get('split'),
  };
}

/**
 * How a view shows its lines, as an address without its query and range: what a saved query keeps
 * besides its text.
 */
export function lookOf({ columns, pinned, oldestFirst, chart }: Pick<ViewState, 'columns' | 'pinned' | 'oldestFirst' | 'chart'>): string {
  return toSearch({ ...START, columns, pinned, oldestFirst, chart });
}

/** The state of such an address; without one, lines are shown as they are now. */
export function fromLook(look: string | undefined): Partial<ViewState> {
  if (look === undefined) return {};
  const { columns, pinned, oldestFirst, chart } = fromSearch(look);
  return { columns, pinned, oldestFirst, chart };
}

/** The pinned fields with one more, or without it if it was pinned. */
export function togglePinned(pinned: readonly string[], field: string): string[] {
  return pinned.includes(field) ? pinned.filter((one) => one !== field) : [...pinned.slice(0, PINNED_MAX - 1), field];
}

function writeRange(params: URLSearchParams, range: Range): void {
  if (range.kind === 'all') params.set('range', 'all');
  else if (range.kind === 'absolute') {
    params.set('from', new Date(range.startMs).toISOString());
    params.set('to', new Date(range.endMs).toISOString());
  } else if (DEFAULT_RANGE.kind !== 'relative' || range.ms !== DEFAULT_RANGE.ms) {
    params.set('range', formatDuration(range.ms));
  }
}

function readRange(params: URLSearchParams): Range {
  const from = params.get('from');
  const to = params.get('to');
  if (from !== null && to !== null) {
    const startMs = parseInstant(from, Date.now(), true);
    const endMs = parseInstant(to, Date.now(), true);
    if (startMs !== null && endMs !== null && endMs > startMs) return { kind: 'absolute', startMs, endMs };
  }
  const range = params.get('range');
  if (range === 'all') return { kind: 'all' };
  const ms = range === null ? null : parseDuration(range);
  return ms === null || ms <= 0 ? DEFAULT_RANGE : { kind: 'relative', ms };
}
