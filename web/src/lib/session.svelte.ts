// Who is logged in. The login is shown in place of the views, at the same address, so it leads back to where one was and
// nowhere else.

import { ANYBODY, meOf, screenOf, whoText, type Me } from './access';
import { ApiError, logIn, logOut, onUnauthorized, whoAmI } from './api';

class Session {
  /** Null until the server has told. */
  me = $state.raw<Me | null>(null);
  /** A login that was there has ended. */
  ended = $state(false);

  constructor() {
    onUnauthorized(() => this.#lost());
  }

  screen = $derived(this.me === null ? 'wait' : screenOf(this.me));
  who = $derived(this.me === null ? null : whoText(this.me));

  async load(): Promise<void> {
    try {
      this.me = meOf(await whoAmI());
    } catch (error) {
      // A server that cannot be reached is told of by the views; they ask again.
      if (!(error instanceof ApiError)) throw error;
      this.me = ANYBODY;
    }
  }

  /** Throws when name or password are wrong, or the server cannot be reached. */
  async logIn(name: string, password: string): Promise<void> {
    this.me = meOf(await logIn(name, password));
    this.ended = false;
  }

  async logOut(): Promise<void> {
    try {
      await logOut();
    } catch (error) {
      // The login is there still. That the server cannot be reached is told over every view.
      if (error instanceof ApiError) return;
      throw error;
    }
    this.me = { login: 'on', name: null, role: null, exposed: false };
  }

  #lost(): void {
    // Several calls may learn it at once.
    if (this.me?.role === null) return;
    this.ended = this.me?.login === 'on';
    this.me = { login: 'on', name: null, role: null, exposed: false };
  }
}

export const session = new Session();
