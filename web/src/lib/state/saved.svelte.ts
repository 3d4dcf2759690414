// The list of the documents of one kind, and the one that is shown, with its changes that were not saved yet. They outlive a
// change of the view.

import { ApiError, isAbort } from '../api/call';
import { dashboards, deleteDocument, savedDocument, saveDocument, type DashboardEntry, type Read } from '../api/dashboards';
import { toApiError } from './lines.svelte';

/** What is the same in all documents. */
interface Saved {
  id: string;
  title: string;
  version: number;
}

/** What tells one kind of document from another. */
export interface Kind<T> {
  /** Whether the document of this id is one of them. */
  isOne: (id: string) => boolean;
  /** An id for a new one, that none of the others has. */
  idFor: (title: string, taken: readonly string[]) => string;
  read: Read<T>;
  write: (document: T) => Record<string, unknown>;
  /** Why one cannot be saved; null if it can. */
  refuses: (document: T) => string | null;
}

export class SavedDocuments<T extends Saved> {
  /** Null until the server has answered. */
  list = $state.raw<DashboardEntry[] | null>(null);
  /** The server keeps no documents: it is older than this page. */
  isAbsent = $state(false);
  error = $state.raw<ApiError | null>(null);
  /** The document that is shown, as it is edited. */
  shown = $state.raw<T | null>(null);
  isChanged = $state(false);
  isSaving = $state(false);
  /** Somebody else has saved the document meanwhile. */
  isOutdated = $state(false);
  readonly #kind: Kind<T>;

  constructor(kind: Kind<T>) {
    this.#kind = kind;
  }

  async load(signal?: AbortSignal): Promise<void> {
    try {
      const list = await dashboards(signal ? { signal } : {});
      this.list = list.filter(({ id }) => this.#kind.isOne(id)).sort((a, b) => a.title.localeCompare(b.title));
      this.error = null;
      this.isAbsent = false;
    } catch (error) {
      if (isAbort(error)) return;
      this.error = toApiError(error);
      this.isAbsent = this.error.status === 404;
    }
  }

  /** The document with changes that were not saved, or null if there are none. */
  draftOf(id: string): T | null {
    return this.isChanged && this.shown?.id === id ? this.shown : null;
  }

  /** Shows a document; one with changes that were not saved stays as it is. */
  async open(id: string, signal?: AbortSignal): Promise<void> {
    if (this.draftOf(id)) return;
    this.error = null;
    try {
      const found = await savedDocument(id, this.#kind.read, signal ? { signal } : {});
      // One that has just been made is shown before the server answers, and may be changed by then.
      if (!this.draftOf(id)) this.show(found);
    } catch (error) {
      if (isAbort(error)) return;
      this.shown = null;
      this.error = toApiError(error);
    }
  }

  show(document: T | null): void {
    this.shown = document;
    this.isChanged = false;
    this.isOutdated = false;
  }

  edit(next: T): void {
    if (next === this.shown) return;
    this.shown = next;
    this.isChanged = true;
  }

  /**
   * Saves a document; a new one gets an id from its title. Changes that are made meanwhile stay, as changes of what was
   * saved. Null if saving failed, with the reason in `error`.
   */
  async save(document: T): Promise<T | null> {
    const isShown = this.shown === document;
    const refusal = this.#kind.refuses(document);
    if (refusal !== null) {
      this.error = new ApiError(refusal, 400);
      return null;
    }
    this.isSaving = true;
    this.error = null;
    try {
      const id = document.id || this.#kind.idFor(document.title, (this.list ?? []).map((one) => one.id));
      const saved = await saveDocument(id, this.#kind.write({ ...document, id }), this.#kind.read);
      if (this.shown === document) this.show(saved);
      else if (this.shown?.id === saved.id) {
        if (!this.isChanged) this.show(saved);
        // Changes of another version keep their own, so that saving them does not overwrite this one.
        else if (isShown) this.shown = { ...this.shown, version: saved.version };
      }
      await this.load();
      return saved;
    } catch (error) {
      this.error = toApiError(error);
      this.isOutdated = this.error.status === 409;
      return null;
    } finally {
      this.isSaving = false;
    }
  }

  async remove(id: string): Promise<boolean> {
    try {
      await deleteDocument(id);
      if (this.shown?.id === id) this.show(null);
      await this.load();
      return true;
    } catch (error) {
      this.error = toApiError(error);
      return false;
    }
  }
}
