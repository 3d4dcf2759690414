// What the panel of fields shows: the frequent values of each field, the chosen ones always among them.
//
// A field whose values the query chooses would show nothing but these; what else there is to choose is asked for with the
// choice of that field taken out.

import type { Facet, ValueHits } from './api';
import type { ChosenValues } from './logsql';

export interface ShownValue {
  value: string;
  /** Null when nobody counted it. */
  hits: number | null;
}

export interface ShownFacet {
  field: string;
  values: ShownValue[];
  /** Every line found has this one value. */
  constant: boolean;
}

const FIRST = ['_type', '_level', 'app_name', 'hostname', 'status'];
/** Internals and what is the same information again. */
const HIDDEN = new Set(['_stream', '_stream_id', '_time', '_line_id', '_line', '_received']);

/**
 * `facets` are those of the lines found, `lines` of them; `others` the values of the fields in `chosen`, by field, without
 * the choice.
 */
export function shownFacets(
  facets: readonly Facet[],
  lines: number,
  chosen: ReadonlyMap<string, ChosenValues>,
  others: ReadonlyMap<string, readonly ValueHits[]>,
): ShownFacet[] {
  const shown = facets.map<ShownFacet>((facet) => {
    const values = facet.values.map((entry) => ({ value: entry.field_value, hits: entry.hits }));
    return { field: facet.field_name, values, constant: values.length === 1 && (values[0]?.hits ?? 0) >= lines };
  });
  for (const [field, { included, excluded }] of chosen) {
    let facet = shown.find((one) => one.field === field);
    if (!facet) shown.push((facet = { field, values: [], constant: false }));
    facet.constant = false;
    const counted = new Map(facet.values.map((entry) => [entry.value, entry.hits]));
    for (const { value, hits } of others.get(field) ?? []) if (value !== '') counted.set(value, hits);
    const values = [...counted].map(([value, hits]) => ({ value, hits }));
    values.sort((a, b) => (b.hits ?? -1) - (a.hits ?? -1));
    const missing = [...included, ...excluded].filter((value) => !counted.has(value));
    facet.values = [...missing.map((value) => ({ value, hits: null })), ...values];
  }
  const place = (facet: ShownFacet): number => {
    const at = FIRST.indexOf(facet.field);
    return at < 0 ? FIRST.length : at;
  };
  return shown
    .filter((facet) => !HIDDEN.has(facet.field))
    .sort((a, b) => Number(a.constant) - Number(b.constant) || place(a) - place(b) || (a.field < b.field ? -1 : 1));
}
