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

/** What the server does not answer. */
const NOT_LOGQL = /\bvariants\s*\(/;

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

/** A quoted text that is no name of a field; a filter `field:=$host`; a selector of a stream. */
const PARTS = /"(?:\\.|[^"\\])*"(?!\s*:)|((?:"(?:\\.|[^"\\])*")|[\w.@/-]+)\s*:(?:=|in\()?\s*"?\$(\w+)"?\)?|(_stream:)?\{([^{}]*)\}/g;
/** A matcher of a selector. */
const MATCHER = /\s*("(?:\\.|[^"\\])*"|[\w.@/-]+)\s*(=~|!~|!=|=)\s*("(?:\\.|[^"\\])*"|[^\s,]+)\s*(?:,|$)/g;

const bare = (text: string): string => (text.startsWith('"') ? text.slice(1, -1).replace(/\\(.)/g, '$1') : text);

/**
 * `$host` and `${host}` of Grafana become variables here where they stand for all values of a
 * field: `field:=$host`, a matcher `field="$host"` of a selector, whose other matchers stay
 * together.
 */
function withFilters(query: string, variables: Variable[], notes: Set<string>): string {
  const named = query.replace(/\$\{([a-z_][a-z0-9_]*)(?::[a-z]+)?\}/gi, '$$$1').replace(/\[\[([a-z_][a-z0-9_]*)\]\]/gi, '$$$1');
  const isFilter = (field: string, name: string): boolean => variables.some((one) => one.name === name && one.field === bare(field));
  const lost = (text: string): void => {
    for (const [, name] of text.matchAll(/\$(\w+)/g)) notes.add(`$${name} has no meaning here; write a filter in its place.`);
  };
  return named.replace(PARTS, (found, field: string | undefined, name: string | undefined, prefix: string | undefined, inner: string | undefined) => {
    if (field !== undefined && name !== undefined) {
      if (isFilter(field, name)) return `$${name}`;
      lost(found);
      return found;
    }
    if (inner === undefined) {
      lost(found);
      return found;
    }
    const matchers = [...inner.matchAll(MATCHER)].map(([whole, label, sign, value]) => ({ text: whole.replace(/,?\s*$/, '').trim(), label: label as string, sign: sign as string, value: bare(value as string) }));
    const isOne = ({ label, sign, value }: (typeof matchers)[number]): boolean => (sign === '=' || sign === '=~') && /^\$\w+$/.test(value) && isFilter(label, value.slice(1));
    const filters = matchers.filter(isOne).map(({ value }) => value);
    if (filters.length === 0) {
      lost(found);
      return found;
    }
    const rest = matchers.filter((one) => !isOne(one)).map(({ text }) => text);
    rest.forEach(lost);
    return [...(rest.length > 0 ? [`${prefix ?? ''}{${rest.join(',')}}`] : []), ...filters].join(' ');
  });
}

function variablesOf(of: Json, notes: Set<string>): Variable[] {
  const found: Variable[] = [];
  for (const one of list(object(of['templating'])['list']).map(object)) {
    const [name, query] = [text(one['name']), object(one['query'])];
    if (name === '' || text(one['type']) === 'datasource') continue;
    const written = `${text(one['query'])}${text(one['definition'])}`;
    const field = text(query['field']) || text(query['label']) || /label_values\(\s*(?:[^()]*,\s*)?([\w.@/-]+)\s*\)/.exec(written)?.[1] || '';
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
    const add = (query: string, written: string, language?: 'logql'): void => {
      if (panels.length < PANELS_MAX) panels.push({ id: String(panels.length + 1), title, query, ...(language ? { language } : {}), text: written, width, height, options: optionsOf(panel) });
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
    const known = type in KINDS ? null : `“${title}” is of the type ${type}, which is unknown here; it is shown as the chart that fits its result.`;
    if (written === '') notes.add(`“${title}” (${type || 'no type'}) has no query of a log store, and was left out.`);
    else if (query === null && NOT_LOGQL.test(written)) notes.add(`“${title}” was left out: its query cannot be answered: ${written.slice(0, 120)}`);
    else {
      if (known !== null) notes.add(known);
      // The server answers LogQL too; what is the same in LogsQL leads to its lines besides.
      if (query === null) {
        for (const [, a, b, c] of written.matchAll(/\$\{(\w+)(?::\w+)?\}|\[\[(\w+)\]\]|\$(\w+)/g)) {
          const name = (a ?? b ?? c) as string;
          if (!name.startsWith('__') && !variables.some((one) => one.name === name)) notes.add(`$${name} has no meaning here; write a filter in its place.`);
        }
        add(written, '', 'logql');
      } else add(withFilters(query, variables, notes), '');
    }
  }
  const title = text(of['title']).trim().slice(0, TITLE_CHARS_MAX) || 'Imported dashboard';
  return { dashboard: { id: '', title, version: 0, variables, panels }, notes: [...notes] };
}
