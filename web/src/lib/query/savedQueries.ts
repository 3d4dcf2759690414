// Saved queries: names for queries, kept on the server for everybody as one document among the
// dashboards, or in the browser of those who may not write there. Pure; queries.svelte.ts keeps
// them.

export interface SavedQuery {
  name: string;
  query: string;
  /** Columns, pinned fields, order and chart that it was saved with, as an address of the page. */
  look?: string;
}

/** Saved queries and what of the server's document they belong to. */
export interface SavedQueries {
  /** The version that was read; 0 if there is no document yet. */
  version: number;
  queries: SavedQuery[];
}

/** The document's id among the dashboards; the list of dashboards leaves it out. */
export const SAVED_ID = '_saved_queries';
export const SAVED_MAX = 500;
export const NAME_CHARS_MAX = 100;
/** A longer look is not kept. */
const LOOK_CHARS_MAX = 4_000;

function isLook(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith('?') && value.length <= LOOK_CHARS_MAX;
}

function isSaved(value: unknown): value is SavedQuery {
  const { name, query } = (value ?? {}) as Partial<Record<keyof SavedQuery, unknown>>;
  return typeof name === 'string' && name.trim() !== '' && typeof query === 'string';
}

/** Reads a document, of the server or of a file; what is no saved query is left out. */
export function readSaved(value: unknown): SavedQueries {
  const { version, queries } = (value ?? {}) as { version?: unknown; queries?: unknown };
  const list = Array.isArray(queries) ? queries.filter(isSaved).map(({ name, query, look }) => ({ name: name.trim().slice(0, NAME_CHARS_MAX), query, ...(isLook(look) ? { look } : {}) })) : [];
  return { version: typeof version === 'number' ? version : 0, queries: sorted(list).slice(0, SAVED_MAX) };
}

/** The document as the server keeps it; a dashboard must have panels. */
export function writeSaved({ version, queries }: SavedQueries): string {
  return JSON.stringify({ id: SAVED_ID, title: 'Saved queries', version, panels: [], queries });
}

/** The queries with one more; a query of the same name is replaced. An error says what to do. */
export function withSaved(queries: readonly SavedQuery[], { name, query, look }: SavedQuery): SavedQuery[] | { error: string } {
  const title = name.trim();
  if (title === '') return { error: 'Type a name for the query.' };
  if (title.length > NAME_CHARS_MAX) return { error: `A name has at most ${NAME_CHARS_MAX} characters.` };
  const others = queries.filter((other) => other.name !== title);
  if (others.length >= SAVED_MAX) return { error: `There are ${SAVED_MAX} saved queries already. Delete some.` };
  return sorted([...others, { name: title, query, ...(isLook(look) ? { look } : {}) }]);
}

export function withoutSaved(queries: readonly SavedQuery[], name: string): SavedQuery[] {
  return queries.filter((other) => other.name !== name);
}

/** Sorted by name; of several with one name, the last is kept. */
function sorted(queries: readonly SavedQuery[]): SavedQuery[] {
  const byName = new Map(queries.map((entry) => [entry.name, entry]));
  return [...byName.values()].sort((a, b) => a.name.localeCompare(b.name));
}
