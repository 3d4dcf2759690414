// Queries in LogQL, of panels that were Grafana's: its variables in them, and the answers as rows
// that a chart can draw. What the language means is known to the server alone.

import type { Row } from '../base/jsonl';
import { stepParam } from '../base/steps';
import { quoteField } from './logsql';
import type { Chosen, Variable } from './variables';

const STRING = /(?:(\|=|\|~|=~|!~|!=|=)\s*)?("(?:\\.|[^"\\])*"|`[^`]*`)/g;
const NAMED = /\$\{(\w+)(?::\w+)?\}|\[\[(\w+)\]\]|\$(\w+)/g;

const asRegex = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/**
 * A query with the chosen values. A matcher of a label, `host="$host"`, or a filter of lines,
 * `|= "$host"`, takes all of them, and any text if none is chosen; in other texts a variable stands
 * for the first one. A value is always a text or an escaped part of a regular expression, whatever
 * is in it.
 */
export function withLogQlVariables(query: string, variables: readonly Variable[], chosen: Chosen): string {
  const known = new Set(variables.map(({ name }) => name));
  return query.replace(STRING, (found, sign: string | undefined, literal: string) => {
    let text: string;
    try {
      text = literal.startsWith('`') ? literal.slice(1, -1) : (JSON.parse(literal) as string);
    } catch {
      return found;
    }
    const names = [...text.matchAll(NAMED)].map(([, a, b, c]) => (a ?? b ?? c) as string);
    if (!names.some((name) => known.has(name))) return found;
    const [only] = names;
    const isWhole = names.length === 1 && text.replace(NAMED, '') === '';
    const values = isWhole ? (chosen[only as string] ?? []) : [];
    const isNegative = sign?.startsWith('!') ?? false;
    if (sign !== undefined && isWhole) {
      const [plain, regex] = sign.startsWith('|') ? ['|=', '|~'] : isNegative ? ['!=', '!~'] : ['=', '=~'];
      if (values.length === 1) return `${plain}${JSON.stringify(values[0])}`;
      return `${regex}${JSON.stringify(values.length === 0 ? '.*' : values.map(asRegex).join('|'))}`;
    }
    const isRegex = sign?.endsWith('~') ?? false;
    const replaced = text.replace(NAMED, (whole, a?: string, b?: string, c?: string) => {
      const name = (a ?? b ?? c) as string;
      if (!known.has(name)) return whole;
      const own = chosen[name] ?? [];
      return isRegex ? (own.length === 0 ? '.*' : `(${own.map(asRegex).join('|')})`) : (own[0] ?? '');
    });
    return `${sign ?? ''}${JSON.stringify(replaced)}`;
  });
}

/** Grafana's own variables: the step and the length of the range. */
export function withIntervals(query: string, stepMs: number, rangeMs: number): string {
  const step = stepParam(stepMs);
  const range = `${Math.max(1, Math.round(rangeMs / 1000))}s`;
  return query.replace(/\$(?:__(interval|auto|rate_interval|range)\b|\{__(interval|auto|rate_interval|range)\})/g, (_, a?: string, b?: string) => ((a ?? b) === 'range' ? range : step));
}

/** The `data` of an answer of `query_range`. */
export interface LogQlData {
  resultType: 'matrix' | 'streams' | string;
  result: { metric?: Record<string, string>; stream?: Record<string, string>; values: [string | number, string][] }[];
}

/** An answer as rows, and a query of LogsQL whose result would look so; null for lines. */
export function rowsOfLogQl({ resultType, result }: LogQlData, stepMs: number, rowsMax: number): { rows: Row[]; like: string | null } {
  if (resultType !== 'matrix') {
    const lines = result.flatMap(({ stream, values }) => values.map(([ns, line]) => ({ ns: BigInt(ns), line, stream: stream ?? {} })));
    lines.sort((a, b) => (a.ns > b.ns ? -1 : a.ns < b.ns ? 1 : 0));
    return { rows: lines.slice(0, rowsMax).map(({ ns, line, stream }) => ({ _time: new Date(Number(ns / 1_000_000n)).toISOString(), _msg: line, ...stream })), like: null };
  }
  const labels = [...new Set(result.flatMap(({ metric }) => Object.keys(metric ?? {})))].sort();
  const rows = result.flatMap(({ metric, values }) =>
    values.map(([seconds, value]): Row => ({ _time: new Date(Math.round(Number(seconds) * 1000)).toISOString(), ...Object.fromEntries(labels.map((label) => [label, metric?.[label] ?? ''])), value })),
  );
  const by = [`_time:${stepParam(stepMs)}`, ...labels.map(quoteField)].join(', ');
  return { rows: rows.slice(0, rowsMax), like: `* | stats by (${by}) max(value) value` };
}
