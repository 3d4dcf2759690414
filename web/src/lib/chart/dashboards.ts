// Dashboards: documents of panels, each a query with the options of its chart. Pure: reading, changing, writing them.

import { changedOptions, readOptions, type ChartOptions } from './options';
import { readVariables, type Variable } from '../query/variables';

/** The grid has so many columns; a panel has three of them at least. */
export const COLUMNS = 12;
const COLUMNS_MIN = 3;
/** Widths that have a name. */
export const WIDTHS = [3, 4, 6, 8, 12] as const;
export const HEIGHTS = { small: 150, normal: 220, tall: 360 } as const;
export type Height = keyof typeof HEIGHTS;

export interface Panel {
  /** Names the panel in its dashboard. */
  id: string;
  title: string;
  query: string;
  /** The language of the query; LogsQL if it is missing. */
  language?: 'logql';
  /** Shown in place of a chart, where there is no query. */
  text: string;
  width: number;
  height: Height;
  options: ChartOptions;
}

export interface Dashboard {
  /** Empty for one that was never saved. */
  id: string;
  title: string;
  /** The version that was read; the server refuses a change of another one. 0 for a new dashboard. */
  version: number;
  variables: Variable[];
  panels: Panel[];
  /** Schedules by mail of an imported dashboard, which the server checks and keeps beside it. */
  mails?: readonly unknown[];
  /** It is a file of the server, and cannot be changed here. */
  provided?: true;
}

/** Larger documents are refused when they are imported. */
export const PANELS_MAX = 60;
export const TITLE_CHARS_MAX = 200;
const QUERY_CHARS_MAX = 100_000;
export const TEXT_CHARS_MAX = 20_000;
export const IMPORT_BYTES_MAX = 4 * 1024 * 1024;

function text(value: unknown, max: number): string | null {
  return typeof value === 'string' && value.length <= max ? value : null;
}

/** A width that a panel can have. */
export function nearestWidth(value: unknown): number {
  const wanted = typeof value === 'number' && Number.isFinite(value) ? value : 6;
  return Math.max(COLUMNS_MIN, Math.min(COLUMNS, Math.round(wanted)));
}

const HEIGHT_NAMES = Object.keys(HEIGHTS) as Height[];

/** The height that is nearest to so many pixels. */
export function nearestHeight(pixels: number): Height {
  return HEIGHT_NAMES.reduce((best, name) => (Math.abs(HEIGHTS[name] - pixels) < Math.abs(HEIGHTS[best] - pixels) ? name : best));
}

/** The next smaller (-1) or larger (1) height, if there is one. */
export function heightBeside(height: Height, by: -1 | 1): Height {
  return HEIGHT_NAMES[HEIGHT_NAMES.indexOf(height) + by] ?? height;
}

function readPanel(value: unknown, at: number): Panel | null {
  if (typeof value !== 'object' || value === null) return null;
  const of = value as Record<string, unknown>;
  const query = text(of['query'], QUERY_CHARS_MAX);
  const written = text(of['text'], TEXT_CHARS_MAX) ?? '';
  if (query === null && written === '') return null;
  const height = of['height'];
  return {
    id: text(of['id'], 100) || String(at + 1),
    title: text(of['title'], TITLE_CHARS_MAX) ?? '',
    query: query ?? '',
    ...(of['language'] === 'logql' ? { language: 'logql' as const } : {}),
    text: written,
    width: nearestWidth(of['width']),
    height: typeof height === 'string' && height in HEIGHTS ? (height as Height) : 'normal',
    options: readOptions(of['options']),
  };
}

/** A dashboard from a document; an error that says what is wrong with it if it is none. */
export function readDashboard(value: unknown): Dashboard | { error: string } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { error: 'A dashboard is a JSON object with “title” and “panels”.' };
  const of = value as Record<string, unknown>;
  const title = text(of['title'], TITLE_CHARS_MAX)?.trim();
  if (!title) return { error: `“title” must be a text of 1 to ${TITLE_CHARS_MAX} characters.` };
  const list = of['panels'];
  if (!Array.isArray(list)) return { error: '“panels” must be a list.' };
  if (list.length > PANELS_MAX) return { error: `A dashboard has at most ${PANELS_MAX} panels; this one has ${list.length}.` };
  const panels = list.map(readPanel);
  const wrong = panels.indexOf(null);
  if (wrong >= 0) return { error: `Panel ${wrong + 1} has neither “query” nor “text”.` };
  const seen = new Set<string>();
  for (const panel of panels as Panel[]) {
    while (seen.has(panel.id)) panel.id += "'";
    seen.add(panel.id);
  }
  const version = of['version'];
  return { id: text(of['id'], 100) ?? '', title, version: typeof version === 'number' && Number.isSafeInteger(version) ? version : 0, variables: readVariables(of['variables']), panels: panels as Panel[], ...(Array.isArray(of['mails']) && of['mails'].length > 0 ? { mails: of['mails'] } : {}), ...(of['provided'] === true ? { provided: true } : {}) };
}

/** The document that is saved and exported. */
export function writeDashboard({ id, title, version, variables, panels, mails }: Dashboard): Record<string, unknown> {
  const written = panels.map(({ options, text, query, ...panel }) => ({ ...panel, ...(query === '' && text !== '' ? { text } : { query }), options: changedOptions(options) }));
  return { id, title, version, ...(variables.length > 0 ? { variables } : {}), panels: written, ...(mails ? { mails } : {}) };
}

/** A dashboard from the text of a file. It is a new one: an import never replaces what is there. */
export function importDashboard(file: string): Dashboard | { error: string } {
  if (file.length > IMPORT_BYTES_MAX) return { error: 'The file is larger than 4 MiB.' };
  let value: unknown;
  try {
    value = JSON.parse(file);
  } catch {
    return { error: 'The file is not JSON.' };
  }
  const read = readDashboard(value);
  if ('error' in read) return read;
  const { provided: _, ...own } = read;
  return { ...own, id: '', version: 0 };
}

/** The file of an export, with schedules by mail if there are any. */
export function exportText(dashboard: Dashboard, mails: readonly unknown[] = []): string {
  return `${JSON.stringify(writeDashboard({ ...dashboard, id: '', version: 0, ...(mails.length > 0 ? { mails } : {}) }), null, 2)}\n`;
}

/** An id for a new dashboard, from its title, that none of the others has. */
export function idFor(title: string, taken: readonly string[]): string {
  const base = title.toLowerCase().normalize('NFKD').replace(/[^a-z0-9]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 40) || 'dashboard';
  let id = base;
  for (let number = 2; taken.includes(id); number++) id = `${base}-${number}`;
  return id;
}

/** Adds a panel at the end. */
export function withPanel(dashboard: Dashboard, panel: Omit<Panel, 'id'>): Dashboard {
  const ids = new Set(dashboard.panels.map((one) => one.id));
  let number = dashboard.panels.length + 1;
  while (ids.has(String(number))) number++;
  return { ...dashboard, panels: [...dashboard.panels, { ...panel, id: String(number) }] };
}

function withChange(panel: Panel, change: { [Key in keyof Panel]?: Panel[Key] | undefined }): Panel {
  const next = Object.entries({ ...panel, ...change, id: panel.id }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(next) as unknown as Panel;
}

/** Changes a panel; `undefined` removes what it may lack. */
export function changePanel(dashboard: Dashboard, id: string, change: { [Key in keyof Panel]?: Panel[Key] | undefined }): Dashboard {
  return { ...dashboard, panels: dashboard.panels.map((panel) => (panel.id === id ? withChange(panel, change) : panel)) };
}

export function withoutPanel(dashboard: Dashboard, id: string): Dashboard {
  return { ...dashboard, panels: dashboard.panels.filter((panel) => panel.id !== id) };
}

/** Moves a panel to the place of another one. */
export function movePanelTo(dashboard: Dashboard, id: string, other: string): Dashboard {
  const place = (one: string): number => dashboard.panels.findIndex((panel) => panel.id === one);
  return place(id) < 0 || place(other) < 0 ? dashboard : movePanel(dashboard, id, place(other) - place(id));
}

/** Moves a panel by a number of places, at most to the first or last one. */
export function movePanel(dashboard: Dashboard, id: string, by: number): Dashboard {
  const from = dashboard.panels.findIndex((panel) => panel.id === id);
  const to = Math.max(0, Math.min(dashboard.panels.length - 1, from + by));
  if (from < 0 || from === to) return dashboard;
  const panels = [...dashboard.panels];
  panels.splice(to, 0, ...panels.splice(from, 1));
  return { ...dashboard, panels };
}
