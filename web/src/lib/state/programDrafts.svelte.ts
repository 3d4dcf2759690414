// The texts of programs that are being written. They outlive a change of the view; saving ends a draft.

import type { Language } from '../api/programs';

export interface Draft {
  /** The name that was typed for a new program. */
  name: string;
  language: Language;
  text: string;
  /** What the server had when the draft was begun; null for a new program. Saving must not replace any other text. */
  base: string | null;
  /** Sample lines, one each line. */
  sample: string;
  /** The example it began with. */
  example: string | null;
}

class Drafts {
  #all = $state.raw<ReadonlyMap<string, Draft>>(new Map());

  /** `key` is the name of a program, `''` for a new one. */
  of(key: string): Draft | null {
    return this.#all.get(key) ?? null;
  }

  write(key: string, draft: Draft): void {
    this.#all = new Map(this.#all).set(key, draft);
  }

  drop(key: string): void {
    const rest = new Map(this.#all);
    rest.delete(key);
    this.#all = rest;
  }
}

export const drafts = new Drafts();
