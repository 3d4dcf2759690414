// What completes a query: pipes, functions, filters and keywords from the table of help; names and
// values of fields from the server, within the shown range; macros behind `@`.

import { pickedCompletion, startCompletion, type Completion, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete';
import type { EditorView } from '@codemirror/view';
import { callOf, macros, macrosFor } from '../lib/api/ingest';
import { fieldNames, fieldValues, type ValueHits } from '../lib/api/queries';
import { formatShort } from '../lib/base/format';
import { complete, completableAt, type Choice, type Completable } from '../lib/query/logsqlComplete';
import { FILTER_FUNCTIONS, FUNCTIONS, helpOn, keywordsOf, PIPES, SERIES_FUNCTIONS, type HelpEntry } from '../lib/query/logsqlHelp';
import { readParts } from '../lib/query/logsqlParts';
import type { Span } from '../lib/base/time';
import { helpElement } from './help';
import { COLORED_CHARS_MAX } from './highlight';

/** Field names change rarely; a list older than this, or of another range, is fetched again. */
const NAMES_AGE_MAX_MS = 30_000;
/** Names and values offered; the most frequent ones. */
const NAMES_MAX = 500;
const VALUES_MAX = 50;
/** Functions of `running_stats` and `total_stats` besides those of series. */
const RUNNING: ReadonlySet<string> = new Set(['count', 'max', 'min', 'sum', 'rate']);

/** Completes from the server within the range that `span` gives. */
export function completionSource(span: () => Span): (context: CompletionContext) => Promise<CompletionResult | null> {
  let names: { atMs: number; span: Span; list: ValueHits[] } | null = null;

  async function knownNames(signal: AbortSignal): Promise<ValueHits[]> {
    const now = span();
    const isFresh = names !== null && Date.now() - names.atMs <= NAMES_AGE_MAX_MS && isNear(names.span, now);
    if (names === null || !isFresh) {
      const list = await fieldNames('*', now, { signal });
      names = { atMs: Date.now(), span: now, list: list.sort((a, b) => b.hits - a.hits).slice(0, NAMES_MAX) };
    }
    return names.list;
  }

  async function optionsFor(at: Completable, query: string, isExplicit: boolean, signal: AbortSignal): Promise<Completion[]> {
    const option = optionMaker(at);
    const documented = (entries: readonly HelpEntry[], kind: Choice): Completion[] => entries.map((entry) => option(entry.name, kind, { info: () => helpElement(entry) }));
    if ((at.kind === 'pipe' || at.kind === 'field') && at.typed.startsWith('@')) {
      const found = macrosFor(await macros({ signal }), at.typed, at.kind).map((macro) => option(`@${macro.name}`, 'filter', { displayLabel: callOf(macro), detail: macro.description }));
      // Names of fields may begin with the sign too.
      const names = at.kind === 'field' ? (await knownNames(signal)).filter(({ value }) => value.startsWith('@')) : [];
      return [...found, ...names.map((entry, rank) => option(entry.value, 'field', ranked(entry, rank)))];
    }
    switch (at.kind) {
      case 'pipe':
        return documented(PIPES, 'pipe');
      case 'function':
        return [...keywords(at.pipe === '' ? 'stats' : at.pipe).map((word) => option(word, 'keyword', { boost: -1 })), ...documented(functionsOf(at.pipe), 'function')];
      case 'value':
      case 'item': {
        const values = await fieldValues('*', span(), at.field, VALUES_MAX, at.typed, { signal });
        const found = values.filter(({ value }) => value !== '').map((entry, rank) => option(entry.value, at.kind, ranked(entry, rank)));
        const filters = at.kind === 'value' && at.typed !== '' ? documented(FILTER_FUNCTIONS.filter(({ name }) => name.startsWith(at.typed.toLowerCase())), 'filter') : [];
        return [...found, ...filters];
      }
      case 'field': {
        if (at.typed === '' && !isExplicit) return [];
        const fields = (await knownNames(signal)).map((entry, rank) => option(entry.value, 'field', ranked(entry, rank)));
        return [...fields, ...documented(FILTER_FUNCTIONS, 'filter').map((entry) => ({ ...entry, boost: -99 }))];
      }
      case 'name': {
        const words = keywords(at.pipe).map((word) => option(word, 'keyword', {}));
        if (!helpOn('pipe', at.pipe)?.syntax.includes('<field>') && at.pipe !== '') return words;
        const made = madeIn(query.slice(0, at.from)).map((name) => option(name, 'name', { boost: 50 }));
        const stored = (await knownNames(signal)).map((entry, rank) => option(entry.value, 'name', ranked(entry, rank)));
        return unique([...made, ...stored, ...words]);
      }
    }
  }

  return async (context) => {
    const query = context.state.doc.toString();
    const at = query.length > COLORED_CHARS_MAX ? null : completableAt(query, context.pos);
    if (at === null) return null;
    const controller = new AbortController();
    // What the server finds for values depends on what is typed.
    const ofServer = at.kind === 'value' || at.kind === 'item';
    context.addEventListener('abort', () => controller.abort(), { onDocChange: ofServer });
    try {
      const options = await optionsFor(at, query, context.explicit, controller.signal);
      const others = options.filter(({ label }) => label !== at.typed || at.kind === 'pipe');
      return others.length === 0 ? null : { from: at.typedFrom, options: others, ...(ofServer ? {} : { validFor: /^[\w.@]*$/ }) };
    } catch {
      // The query can still be typed; what is wrong with the server is told above every view.
      return null;
    }
  };
}

/** Whether names of one range are good enough for the other: a range that is refreshed moves on. */
function isNear(a: Span, b: Span): boolean {
  const length = b.endMs - b.startMs;
  return Math.abs(a.startMs - b.startMs) <= length / 4 && Math.abs(a.endMs - b.endMs) <= length / 4;
}

function ranked({ hits }: ValueHits, rank: number): Partial<Completion> {
  return { detail: formatShort(hits), boost: Math.max(0, 40 - rank) };
}

function keywords(pipe: string): readonly string[] {
  const entry = helpOn('pipe', pipe);
  return entry === null ? [] : keywordsOf(entry);
}

function functionsOf(pipe: string): readonly HelpEntry[] {
  if (pipe === '' || pipe === 'stats') return FUNCTIONS;
  const series = SERIES_FUNCTIONS.filter(({ name }) => (name === 'share') === (pipe === 'total_stats'));
  return [...FUNCTIONS.filter(({ name }) => RUNNING.has(name)), ...series];
}

/** Names that the pipes of a query mention: they may be results that no stored line has. */
function madeIn(query: string): string[] {
  const { parts } = readParts(query);
  const from = parts.find(({ text }) => text === '|')?.from ?? query.length;
  return parts.filter((part) => part.role === 'field' && part.from > from).map(({ text }) => text);
}

function unique(options: Completion[]): Completion[] {
  const seen = new Set<string>();
  return options.filter(({ label }) => !seen.has(label) && seen.add(label));
}

/** Makes options for a place of the query. */
function optionMaker(at: Completable): (label: string, kind: Choice, more: Partial<Completion>) => Completion {
  return (label, kind, more) => ({
    label,
    ...more,
    apply: (view: EditorView, completion: Completion, _from: number, to: number) => {
      const query = view.state.doc.toString();
      const done = complete(query, { ...at, to }, label, kind);
      view.dispatch({
        changes: { from: at.from, to: query.length, insert: done.query.slice(at.from) },
        selection: { anchor: done.caret },
        scrollIntoView: true,
        userEvent: 'input.complete',
        annotations: pickedCompletion.of(completion),
      });
      if (kind === 'field' || kind === 'pipe' || kind === 'function') startCompletion(view);
    },
  });
}
