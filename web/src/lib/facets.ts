// The content of the panel of fields: the frequent values of each field, always including the chosen ones.
//
// A field with chosen values would show only these, so its other values are requested with a query without that choice.

import type { Facet, ValueHits } from './api';
import type { ChosenValues } from './logsql';

export interface ShownValue {
  value: string;
  /** Null if it was not counted. */
  hits: number | null;
}

export interface ShownFacet {
  field: string;
  values: ShownValue[];
  /** All lines found have this one value. */
  constant: boolean;
}

const FIRST = ['_type', '_level', 'app_name', 'hostname', 'status'];
/** Internal fields, and fields that repeat other information. */
const HIDDEN = new Set(['_stream', '_stream_id', '_time', '_line_id', '_line', '_received']);

/**
 * `facets` are those of the `lines` lines found; `others` are the values of the fields in `chosen`, by field, found
 * without the choice.
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
