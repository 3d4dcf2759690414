// The content of the panel of fields: the frequent values of each field, always including the chosen ones; numbers with
// their least, middle and largest value; what all lines share; and last those that rarely help.
//
// A field with chosen values would show only these, so its other values are requested with a query without that choice.

import type { Facet, ValueHits } from '../api/queries';
import type { Row } from '../base/jsonl';
import { quoteField, type ChosenValues } from '../query/logsql';
import { OUTCOME } from './chips';

export interface ShownValue {
  value: string;
  /** Null if it was not counted. */
  hits: number | null;
}

/** What the numbers of a field are, as texts of the server. */
export interface Numbers {
  min: string;
  median: string;
  p99: string;
  max: string;
}

export interface ShownFacet {
  field: string;
  values: ShownValue[];
  /** All lines found have this one value. */
  constant: boolean;
  /** Almost every line has a different value, or another field says the same. */
  noise: boolean;
  /** How many of the lines have the field; null if it was not counted. */
  lines: number | null;
  numbers: Numbers | null;
}

/** What is known besides the frequent values. */
export interface FieldFacts {
  /** All fields with the number of lines that have them; those with very many values have no facet. */
  fields: readonly ValueHits[];
  numbers: ReadonlyMap<string, Numbers>;
}

const FIRST = ['_type', '_level', 'app_name', 'app', 'service', 'service.name', 'hostname', 'host', 'host.name', 'kubernetes.namespace_name', 'k8s.namespace.name', 'status', 'path', 'method'];
/** Internal fields, and fields that repeat other information. */
const HIDDEN = new Set(['_stream', '_stream_id', '_time', '_line_id', '_line', '_received']);
/** Headers of syslog, numbers of processes and ports, sizes. */
const NOISE = /^(_remote_ip|level|priority|facility|facility_keyword|severity|format|sequence|msg_id|protocol|bytes|pid|tid|port|thread|(proc|process|thread|request|trace|span|session)[._-]?id|.*[._](bytes|size|length|port|pid))$/i;
/** With fewer lines a field of different values may well be worth a look. */
const UNIQUE_LINES_MIN = 20;
const UNIQUE_SHARE = 0.2;

/**
 * `facets` are those of the `lines` lines found; `others` are the values of the fields in `chosen`, by field, found
 * without the choice.
 */
export function shownFacets(
  facets: readonly Facet[],
  lines: number,
  chosen: ReadonlyMap<string, ChosenValues>,
  others: ReadonlyMap<string, readonly ValueHits[]>,
  { fields, numbers }: FieldFacts = { fields: [], numbers: new Map() },
): ShownFacet[] {
  const counts = new Map(fields.map(({ value, hits }) => [value, hits]));
  const shown = facets.map<ShownFacet>((facet) => {
    const field = facet.field_name;
    const values = facet.values.map((entry) => ({ value: entry.field_value, hits: entry.hits }));
    const frequent = values.reduce((sum, { hits }) => sum + hits, 0);
    const isUnique = lines >= UNIQUE_LINES_MIN && values.length > 1 && frequent < UNIQUE_SHARE * (counts.get(field) ?? 0);
    const constant = values.length === 1 && (values[0]?.hits ?? 0) >= lines;
    return { field, values, constant, noise: NOISE.test(field) || isUnique, lines: counts.get(field) ?? null, numbers: null };
  });
  const faceted = new Set(shown.map(({ field }) => field));
  for (const { value: field, hits } of fields) {
    // Without a facet because it has too many or too long values.
    if (!faceted.has(field)) shown.push({ field, values: [], constant: false, noise: true, lines: hits, numbers: null });
  }
  for (const facet of shown) {
    facet.numbers = numbers.get(facet.field) ?? null;
    if (facet.numbers && !NOISE.test(facet.field)) facet.noise = false;
  }
  for (const [field, { included, excluded }] of chosen) {
    let facet = shown.find((one) => one.field === field);
    if (!facet) shown.push((facet = { field, values: [], constant: false, noise: false, lines: null, numbers: null }));
    facet.constant = facet.noise = false;
    const counted = new Map(facet.values.map((entry) => [entry.value, entry.hits]));
    for (const { value, hits } of others.get(field) ?? []) if (value !== '') counted.set(value, hits);
    const values = [...counted].map(([value, hits]) => ({ value, hits }));
    values.sort((a, b) => (b.hits ?? -1) - (a.hits ?? -1));
    const missing = [...included, ...excluded].filter((value) => !counted.has(value));
    facet.values = [...missing.map((value) => ({ value, hits: null })), ...values];
  }
  const place = (facet: ShownFacet): number => {
    const at = FIRST.indexOf(facet.field);
    if (at >= 0) return at;
    return FIRST.length + (facet.numbers ? 0 : OUTCOME.test(facet.field) ? 1 : facet.field === '_msg' ? 3 : 2);
  };
  // What most lines have helps most, in tenths: fields of one kind of line stay together.
  const tenths = (facet: ShownFacet): number => Math.round((10 * (facet.lines ?? 0)) / Math.max(1, lines));
  return shown
    .filter((facet) => !HIDDEN.has(facet.field))
    .sort((a, b) => Number(a.constant) - Number(b.constant) || Number(a.noise) - Number(b.noise) || place(a) - place(b) || tenths(b) - tenths(a) || (a.field < b.field ? -1 : 1));
}

/** Fields of one kind that are listed. Lines whose keys are names of users have as many fields as users. */
export const LISTED_MAX = 200;

/** The first fields, and how many there are besides, which are found by their names. */
export function listed(all: readonly ShownFacet[]): { first: readonly ShownFacet[]; more: number } {
  return { first: all.slice(0, LISTED_MAX), more: Math.max(0, all.length - LISTED_MAX) };
}

/** Fields asked for their numbers; each costs a look at all lines found. */
const NUMBERS_MAX = 8;
/** With fewer different values the values themselves say more. */
const DIFFERENT_MIN = 8;

/** The fields that measure something, judged by some lines: numbers, many different ones, and no identifiers. */
export function numericFields(rows: readonly Row[]): string[] {
  const seen = new Map<string, Set<string>>();
  const other = new Set<string>();
  for (const row of rows.slice(0, 300)) {
    for (const [field, value] of Object.entries(row)) {
      if (value === '' || field.startsWith('_')) continue;
      if (!/^-?\d{1,15}(\.\d+)?(e[+-]?\d+)?$/i.test(value)) other.add(field);
      else seen.set(field, (seen.get(field) ?? new Set()).add(value));
    }
  }
  const isMeasure = ([field, values]: [string, Set<string>]): boolean => {
    if (other.has(field) || /(^|[._-])(id|code|status|port|pid|year)$/i.test(field)) return false;
    return values.size >= DIFFERENT_MIN && !(NOISE.test(field) && !/bytes|size|length/i.test(field));
  };
  const measures = [...seen].filter(isMeasure).map(([field]) => field);
  return measures.sort((a, b) => Number(NOISE.test(a)) - Number(NOISE.test(b))).slice(0, NUMBERS_MAX);
}

const PARTS = ['min', 'median', 'p99', 'max'] as const;

/** The query for the numbers of fields, in one row. */
export function numbersQuery(filter: string, fields: readonly string[]): string {
  const stats = fields.flatMap((field, at) => {
    const name = quoteField(field);
    return [`min(${name}) min${at}`, `median(${name}) median${at}`, `quantile(0.99, ${name}) p99${at}`, `max(${name}) max${at}`];
  });
  return `${filter} | stats ${stats.join(', ')}`;
}

export function numbersOf(row: Row | undefined, fields: readonly string[]): Map<string, Numbers> {
  const numbers = new Map<string, Numbers>();
  fields.forEach((field, at) => {
    const parts = PARTS.map((part) => row?.[`${part}${at}`] ?? '');
    if (!parts.every((text) => text !== '' && Number.isFinite(Number(text)))) return;
    const [min, median, p99, max] = parts as [string, string, string, string];
    numbers.set(field, { min, median, p99, max });
  });
  return numbers;
}

