// The queries of the past, in the browser, and saved ones, on the server or in the browser.

import { mayOperate } from '../api/access';
import { ApiError, call, json } from '../api/call';
import { toApiError } from './lines.svelte';
import { readHistory, remember, Walk } from '../query/queryHistory';
import { readSaved, SAVED_ID, withoutSaved, withSaved, writeSaved, type SavedQueries, type SavedQuery } from '../query/savedQueries';
import { session } from './session.svelte';

const HISTORY_KEY = 'loginson.queries';
const SAVED_KEY = 'loginson.saved';
const PATH = `/api/v1/dashboards/${SAVED_ID}`;
const NONE: SavedQueries = { version: 0, queries: [] };

function kept(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function keep(key: string, value: unknown): void {
  try {
    localStorage.setItem(key, JSON.stringify(value));
  } catch {
    // If the browser forbids storage or it is full, the list is lost on reload; nothing else
    // depends on it.
  }
}

function parsed(text: string | null): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}

class Queries {
  /** Newest first. */
  history = $state.raw<readonly string[]>(readHistory(kept(HISTORY_KEY)));
  /** The saved queries that everybody shares; null until the server has answered, and if it keeps none. */
  shared = $state.raw<SavedQueries | null>(null);
  /** Of this browser. */
  own = $state.raw<readonly SavedQuery[]>(readSaved(parsed(kept(SAVED_KEY))).queries);
  error = $state('');
  #walk = new Walk();

  /** Whether the next query is saved for everybody. */
  get isSharing(): boolean {
    return this.shared !== null && session.me !== null && mayOperate(session.me);
  }

  /** Records that a query was run. */
  ran(query: string): void {
    // Another tab may have added some.
    this.history = remember(readHistory(kept(HISTORY_KEY)), query);
    keep(HISTORY_KEY, this.history);
  }

  /** The earlier or later query for the box, or null. */
  recall(step: -1 | 1, text: string, isChanged: boolean): string | null {
    return this.#walk.step(this.history, step, text, isChanged);
  }

  forget(): void {
    this.history = [];
    keep(HISTORY_KEY, this.history);
  }

  async load(): Promise<void> {
    try {
      this.shared = readSaved(await json<unknown>(PATH, {}));
    } catch (error) {
      // No document yet: nobody has saved a query.
      this.shared = error instanceof ApiError && error.status === 404 ? NONE : null;
    }
  }

  /** Saves queries under their names. Whether that worked; else `error` says why not. */
  async save(...added: readonly SavedQuery[]): Promise<boolean> {
    return this.#change(this.isSharing, (list) => {
      let next: SavedQuery[] | { error: string } = [...list];
      for (const one of added) if (Array.isArray(next)) next = withSaved(next, one);
      return next;
    });
  }

  async remove(name: string, isShared: boolean): Promise<boolean> {
    return this.#change(isShared, (list) => withoutSaved(list, name));
  }

  async #change(isShared: boolean, change: (list: readonly SavedQuery[]) => SavedQuery[] | { error: string }): Promise<boolean> {
    this.error = '';
    const next = change(isShared ? (this.shared ?? NONE).queries : this.own);
    if (!Array.isArray(next)) {
      this.error = next.error;
      return false;
    }
    if (!isShared) {
      this.own = next;
      keep(SAVED_KEY, { queries: next });
      return true;
    }
    try {
      await this.#put(next);
      return true;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409) {
        this.error = toApiError(error).message;
        return false;
      }
    }
    // Somebody else has saved a query meanwhile: apply the same change to their version.
    await this.load();
    const again = change((this.shared ?? NONE).queries);
    if (!Array.isArray(again)) {
      this.error = again.error;
      return false;
    }
    try {
      await this.#put(again);
      return true;
    } catch (error) {
      this.error = toApiError(error).message;
      return false;
    }
  }

  async #put(queries: SavedQuery[]): Promise<void> {
    const text = writeSaved({ version: this.shared?.version ?? 0, queries });
    const response = await call(PATH, {}, { body: { type: 'application/json', text } }, 'PUT');
    this.shared = readSaved(await response.json());
  }
}

export const queries = new Queries();
