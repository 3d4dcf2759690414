// Variables of dashboards. `$host` in a query stands for a whole filter, such as `hostname:="web1"`; for all values it
// is `*`. So a value can never become something else in a query, and no query needs a case for "all".

import { inFilter, quoteField } from './logsql';

export interface Variable {
  /** What stands behind `$` in queries. */
  name: string;
  /** The field whose values can be chosen. */
  field: string;
}

export const VARIABLES_MAX = 10;
/** Values of a variable that are chosen at a time, and kept in a link. */
export const VALUES_MAX = 50;
const NAME = /^[a-z][a-z0-9_]{0,39}$/i;

/** The chosen values of each variable; none, or an empty list, for all. */
export type Chosen = Readonly<Record<string, readonly string[]>>;

export function readVariables(value: unknown): Variable[] {
  if (!Array.isArray(value)) return [];
  const found: Variable[] = [];
  for (const one of value.slice(0, VARIABLES_MAX) as unknown[]) {
    const { name, field } = (typeof one === 'object' && one !== null ? one : {}) as Record<string, unknown>;
    if (typeof name !== 'string' || !NAME.test(name) || typeof field !== 'string' || field === '' || field.length > 200) continue;
    if (found.every((other) => other.name !== name)) found.push({ name, field });
  }
  return found;
}

/** The name of a variable for a field. */
export function variableFor(field: string, taken: readonly Variable[]): Variable {
  const base = field.replace(/[^a-z0-9]+/gi, '_').replace(/^_+|_+$/g, '').slice(0, 30) || 'v';
  const start = /^[a-z]/i.test(base) ? base : `v_${base}`;
  let name = start;
  for (let number = 2; taken.some((one) => one.name === name); number++) name = `${start}_${number}`;
  return { name, field };
}

/** The choice with a value more, or without it if it was chosen. */
export function toggleChosen(chosen: Chosen, name: string, value: string): Chosen {
  const { [name]: before = [], ...others } = chosen;
  const values = before.includes(value) ? before.filter((one) => one !== value) : [...before, value].slice(0, VALUES_MAX);
  return values.length === 0 ? others : { ...others, [name]: values };
}

/** A query with the filters of the chosen values. What stands in quotes is text, and a `$` of another name stays. */
export function withVariables(query: string, variables: readonly Variable[], chosen: Chosen): string {
  const filters = new Map(
    variables.map(({ name, field }) => {
      const values = chosen[name] ?? [];
      return [name, values.length === 0 ? '*' : values.length === 1 && values[0] === '' ? `${quoteField(field)}:""` : inFilter(field, values)];
    }),
  );
  return query.replace(/"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|\$([a-z][a-z0-9_]*)/gi, (found, name: string | undefined) =>
    name === undefined ? found : (filters.get(name) ?? found),
  );
}

/** Parameters of a link: `var-host=web1`, once for each value. */
export function writeChosen(params: URLSearchParams, chosen: Chosen): void {
  for (const [name, values] of Object.entries(chosen)) for (const value of values) params.append(`var-${name}`, value);
}

export function chosenFrom(params: URLSearchParams): Chosen {
  const chosen: Record<string, string[]> = {};
  for (const [key, value] of params) {
    const name = key.startsWith('var-') ? key.slice(4) : '';
    if (!NAME.test(name)) continue;
    const values = (chosen[name] ??= []);
    if (values.length < VALUES_MAX && !values.includes(value)) values.push(value);
  }
  return chosen;
}
