// Who is logged in. The login replaces the views at the same address, so it leads back to the same view and nowhere
// else.

import { ANYBODY, isSomebodyElse, loggedOut, meOf, screenOf, whoText, type Me } from '../api/access';
import { ApiError, onUnauthorized } from '../api/call';
import { logIn, logOut, whoAmI } from '../api/session';

class Session {
  /** Null until the server has answered. */
  me = $state.raw<Me | null>(null);
  /** A session existed and has ended. */
  ended = $state(false);
  /** Who used this page last; null if nobody was logged in since it was loaded. */
  #before: string | null = null;

  constructor() {
    onUnauthorized(() => this.#lost());
  }

  screen = $derived(this.me === null ? 'wait' : screenOf(this.me));
  who = $derived(this.me === null ? null : whoText(this.me));

  async load(): Promise<void> {
    try {
      this.me = meOf(await whoAmI());
      this.#before = this.me.name;
    } catch (error) {
      // The views report a server that cannot be reached, and retry.
      if (!(error instanceof ApiError)) throw error;
      this.me = ANYBODY;
    }
  }

  /** Throws if name or password are wrong, or the server cannot be reached. */
  async logIn(name: string, password: string): Promise<void> {
    const me = meOf(await logIn(name, password));
    // Loaded anew at the same address, the page keeps nothing of what the other user saw.
    if (isSomebodyElse(this.#before, me)) return location.reload();
    this.#before = me.name;
    this.me = me;
    this.ended = false;
  }

  /** In another tab somebody else may have logged in, with whose rights this page asks from then on. */
  async check(): Promise<void> {
    if (this.#before === null || this.screen !== 'views') return;
    try {
      const me = meOf(await whoAmI());
      if (me.role === null) this.#lost();
      else if (isSomebodyElse(this.#before, me)) location.reload();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
    }
  }

  async logOut(): Promise<void> {
    let next: string | null;
    try {
      next = await logOut();
    } catch (error) {
      // The session still exists. An unreachable server is reported above every view.
      if (error instanceof ApiError) return;
      throw error;
    }
    this.me = loggedOut(this.me);
    // The provider ends its session too, and leads back here.
    if (next !== null) location.assign(next);
  }

  #lost(): void {
    // Several calls may find out at once.
    if (this.me?.role === null) return;
    this.ended = this.me?.login === 'on';
    this.me = loggedOut(this.me);
  }
}

export const session = new Session();
