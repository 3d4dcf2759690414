// Simple dashboards of Grafana, with panels of VictoriaLogs' or Loki's data source. What cannot be taken over is said.

import { NO_OPTIONS, type ChartOptions, type Kind } from '../lib/chart/options';
import { PANELS_MAX, TITLE_CHARS_MAX, type Dashboard, type Panel } from '../lib/chart/dashboards';
import { variableFor, type Variable } from '../lib/query/variables';

export interface GrafanaImport {
  dashboard: Dashboard;
  /** What was left out or may look different, in words. */
  notes: string[];
}

const KINDS: Record<string, Kind> = {
  timeseries: 'line', graph: 'line', barchart: 'bars', bargauge: 'top', piechart: 'pie', stat: 'single', gauge: 'single',
  singlestat: 'single', table: 'table', 'table-old': 'table', heatmap: 'heat', histogram: 'histogram', logs: 'table',
};
const GRID_COLUMNS = 24;
/** What only LogQL has: a selector with a filter of lines, a range or a stage behind it, and its functions. */
const LOGQL = /^[^|]*\{[^{}]*\}\s*(\|=|!=|\[|$|\|\s*(json|logfmt|line_format|label_format|pattern|regexp|unpack)\b)|_over_time|^\s*(sum|rate|topk)\b/;

type Json = Record<string, unknown>;

function object(value: unknown): Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Whether a document is a dashboard of Grafana and not one of this page. */
export function isGrafana(value: unknown): boolean {
  const of = object(object(value)['dashboard'] ?? value);
  return Array.isArray(of['panels']) && ('schemaVersion' in of || '__inputs' in of || 'templating' in of);
}

/** All panels, with those of rows. */
function panelsOf(of: Json): Json[] {
  return list(of['panels']).flatMap((one) => {
    const panel = object(one);
    return text(panel['type']) === 'row' ? list(panel['panels']).map(object) : [panel];
  });
}

/** Translates the part of LogQL that LogsQL has too: a selector, filters of lines, and a count over time. */
export function fromLogQl(query: string): string | null {
  const counted = /^(?:sum|count)?\s*(?:by\s*\(([^()]*)\)\s*)?\(?\s*(?:count_over_time|rate)\s*\(([\s\S]*)\[[^\]]*\]\s*\)\s*\)?\s*(?:by\s*\(([^()]*)\))?$/.exec(query.trim());
  const lines = counted ? (counted[2] as string).trim() : query.trim();
  const parts = /^(\{[^{}]*\})((?:\s*(?:\|=|!=)\s*(?:"(?:\\.|[^"\\])*"|`[^`]*`))*)\s*$/.exec(lines);
  if (!parts) return null;
  const filters = [...(parts[2] as string).matchAll(/(\|=|!=)\s*("(?:\\.|[^"\\])*"|`[^`]*`)/g)].map(([, sign, literal]) => {
    const wanted = (literal as string).startsWith('`') ? JSON.stringify((literal as string).slice(1, -1)) : literal;
    return `${sign === '!=' ? 'NOT ' : ''}*${wanted}*`;
  });
  const filter = [parts[1] as string, ...filters].join(' ');
  if (!counted) return filter;
  const by = (counted[1] ?? counted[3] ?? '').split(',').map((name) => name.trim()).filter((name) => name !== '');
  return `${filter} | stats by (${['_time:5m', ...by].join(', ')}) count() lines`;
}

/** `$host` and `${host}` of Grafana become variables here where they stand for all values of a field: `field:=$host`, `{field=~"$host"}`. */
function withFilters(query: string, variables: Variable[], notes: Set<string>): string {
  const named = query.replace(/\$\{([a-z_][a-z0-9_]*)(?::[a-z]+)?\}/gi, '$$$1').replace(/\[\[([a-z_][a-z0-9_]*)\]\]/gi, '$$$1');
  const filter = (found: string, field: string, name: string): string => (variables.some((one) => one.name === name && one.field === field) ? `$${name}` : found);
  const plain = named.replace(/([\w.]+):(?:=|in\()?"?\$(\w+)"?\)?/g, filter);
  const selected = plain.replace(/\{\s*([\w.]+)\s*=~?\s*"\$(\w+)"\s*\}/g, filter);
  for (const [, name] of selected.matchAll(/\$(\w+)/g)) if (!variables.some((one) => one.name === name)) notes.add(`$${name} has no meaning here; write a filter in its place.`);
  return selected;
}

function variablesOf(of: Json, notes: Set<string>): Variable[] {
  const found: Variable[] = [];
  for (const one of list(object(of['templating'])['list']).map(object)) {
    const [name, query] = [text(one['name']), object(one['query'])];
    if (name === '' || text(one['type']) === 'datasource') continue;
    const written = `${text(one['query'])}${text(one['definition'])}`;
    const field = text(query['field']) || text(query['label']) || /label_values\(\s*(?:[^,()]*,\s*)?([\w.]+)\s*\)/.exec(written)?.[1] || '';
    if (field === '' || !/^[a-z]\w*$/i.test(name)) notes.add(`The variable ${name} was left out: it is not the values of a field.`);
    else found.push({ ...variableFor(field, found), name });
  }
  return found;
}

function optionsOf(panel: Json): ChartOptions {
  const kind = KINDS[text(panel['type'])] ?? null;
  const custom = object(object(object(panel['fieldConfig'])['defaults'])['custom']);
  const mode = text(object(custom['stacking'])['mode']);
  const overTime = kind === 'line' || kind === 'bars';
  return {
    ...NO_OPTIONS,
    kind: kind === 'line' && text(custom['drawStyle']) === 'bars' ? 'bars' : kind,
    step: overTime ? 'auto' : null,
    stack: mode === 'normal' ? 'stacked' : mode === 'percent' ? 'percent' : null,
  };
}

/** A new dashboard from one of Grafana. */
export function importGrafana(value: unknown): GrafanaImport {
  const of = object(object(value)['dashboard'] ?? value);
  const notes = new Set<string>();
  const variables = variablesOf(of, notes);
  const panels: Panel[] = [];
  for (const panel of panelsOf(of)) {
    const [title, type] = [text(panel['title']).slice(0, TITLE_CHARS_MAX), text(panel['type'])];
    const grid = object(panel['gridPos']);
    const width = Math.round((Number(grid['w'] ?? GRID_COLUMNS / 2) / GRID_COLUMNS) * 12);
    const height = Number(grid['h'] ?? 8) <= 5 ? 'small' : Number(grid['h'] ?? 8) >= 12 ? 'tall' : 'normal';
    const add = (query: string, written: string): void => {
      if (panels.length < PANELS_MAX) panels.push({ id: String(panels.length + 1), title, query, text: written, width, height, options: optionsOf(panel) });
      else notes.add(`Only the first ${PANELS_MAX} panels were taken.`);
    };
    if (type === 'text') {
      add('', text(object(panel['options'])['content']) || text(panel['content']));
      continue;
    }
    const targets = list(panel['targets']).map(object).filter((target) => target['hide'] !== true);
    if (targets.length > 1) notes.add(`“${title}” has ${targets.length} queries; the first one was taken.`);
    const written = text(targets[0]?.['expr']) || text(targets[0]?.['query']);
    const source = text(object(targets[0]?.['datasource'] ?? panel['datasource'])['type']);
    const isLogQl = source === 'loki' || LOGQL.test(written);
    const query = isLogQl ? fromLogQl(written) : written;
    if (written === '') notes.add(`“${title}” (${type || 'no type'}) has no query of a log store, and was left out.`);
    else if (query === null) notes.add(`“${title}” was left out: its query cannot be translated: ${written.slice(0, 120)}`);
    else {
      if (!(type in KINDS)) notes.add(`“${title}” is of the type ${type}, which is unknown here; it is shown as the chart that fits its result.`);
      add(withFilters(query, variables, notes), '');
    }
  }
  const title = text(of['title']).trim().slice(0, TITLE_CHARS_MAX) || 'Imported dashboard';
  return { dashboard: { id: '', title, version: 0, variables, panels }, notes: [...notes] };
}
