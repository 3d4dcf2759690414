// The templates of links from lines, kept on the server for everybody.

import { ApiError, call, json } from '../api/call';
import { LINKS_ID, LINKS_MAX, readLinks, templateProblem, writeLinks, type LinkTemplate, type LinkTemplates } from '../lines/linksOut';

const PATH = `/api/v1/dashboards/${LINKS_ID}`;

class LinksOut {
  #kept = $state.raw<LinkTemplates>({ version: 0, links: [] });
  error = $state('');
  #isAsked = false;

  get all(): readonly LinkTemplate[] {
    return this.#kept.links;
  }

  /** Asks the server once; without an answer lines have no links, which is not told. */
  load(): void {
    if (this.#isAsked) return;
    this.#isAsked = true;
    void this.#read();
  }

  /**
   * Adds a template, in place of the one of its name. Whether that worked; else `error` says why
   * not.
   */
  async save(template: LinkTemplate): Promise<boolean> {
    const problem = templateProblem(template);
    return this.#change(problem, (links) => [...links.filter(({ name }) => name !== template.name), template]);
  }

  async remove(name: string): Promise<boolean> {
    return this.#change(null, (links) => links.filter((other) => other.name !== name));
  }

  async #read(): Promise<void> {
    try {
      this.#kept = readLinks(await json<unknown>(PATH, {}));
    } catch (error) {
      // No document yet: nobody has made a link.
      if (error instanceof ApiError && error.status === 404) this.#kept = { version: 0, links: [] };
    }
  }

  async #change(problem: string | null, change: (links: readonly LinkTemplate[]) => LinkTemplate[]): Promise<boolean> {
    this.error = problem ?? '';
    if (problem !== null) return false;
    for (let isAgain = false; ; isAgain = true) {
      const links = change(this.#kept.links);
      if (links.length > LINKS_MAX) {
        this.error = `There are ${LINKS_MAX} links already. Delete some.`;
        return false;
      }
      try {
        const response = await call(PATH, {}, { body: { type: 'application/json', text: writeLinks({ version: this.#kept.version, links }) } }, 'PUT');
        this.#kept = readLinks(await response.json());
        return true;
      } catch (error) {
        // Somebody else has changed the links meanwhile: the same change is applied to their
        // version.
        if (!isAgain && error instanceof ApiError && error.status === 409) await this.#read();
        else {
          this.error = error instanceof Error ? error.message : String(error);
          return false;
        }
      }
    }
  }
}

export const linksOut = new LinksOut();
