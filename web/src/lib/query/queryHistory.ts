// The queries that were run from the box, newest first. Pure: queries.svelte.ts keeps them in the
// browser.

/** Older queries are forgotten. */
export const HISTORY_MAX = 100;
/** A longer query is not kept: links and dashboards are the place for it. */
export const QUERY_CHARS_MAX = 16_384;

/** The history with a query in front; the same query is in it once. */
export function remember(history: readonly string[], query: string): string[] {
  if (query === '' || query.length > QUERY_CHARS_MAX) return [...history];
  return [query, ...history.filter((other) => other !== query)].slice(0, HISTORY_MAX);
}

/** Reads a stored history; a value that is none gives an empty history. */
export function readHistory(text: string | null): string[] {
  try {
    const list: unknown = JSON.parse(text ?? '[]');
    return Array.isArray(list) ? list.filter((entry): entry is string => typeof entry === 'string' && entry !== '').slice(0, HISTORY_MAX) : [];
  } catch {
    return [];
  }
}

/**
 * Walks through the history as a shell does. It begins in an empty or unchanged box, and goes on as
 * long as the box shows what it put there.
 */
export class Walk {
  /** Index of the shown query; -1 before the first step. */
  #at = -1;
  #shown: string | null = null;
  /** What stood in the box before. */
  #before = '';

  /** The text for the box, or null if there is none to show. `isChanged`: the box holds a draft. */
  step(history: readonly string[], direction: -1 | 1, text: string, isChanged: boolean): string | null {
    if (this.#shown !== text) {
      this.#at = -1;
      this.#shown = null;
      if (direction > 0 || (text.trim() !== '' && isChanged)) return null;
      this.#before = text;
      // The newest query is usually the one that is already shown.
      if (history[0] === text) this.#at = 0;
    }
    const next = this.#at - direction;
    if (next >= history.length || next < -1) return null;
    this.#at = next;
    this.#shown = next === -1 ? this.#before : (history[next] as string);
    const shown = this.#shown;
    if (next === -1) this.#shown = null;
    return shown;
  }
}
