// The state of the page: the only code that reads and writes the URL.

import { fromSearch, toSearch, type ViewState } from './urlstate';

interface HistoryState {
  /** Number of earlier steps within this page; `back` is offered only if there are some. */
  depth: number;
  /** The draft in the query bar when this state was left. */
  draft?: string;
}

class App {
  at = $state.raw<ViewState>(fromSearch(location.search));
  /** Incremented to run the same query again. */
  runs = $state(0);
  /** The name of what the view shows, such as a dashboard, for the title of the window. */
  title = $state('');
  depth = $state((history.state as HistoryState | null)?.depth ?? 0);
  /** The edited text of the query bar that was not run yet, kept across views; null if there are no edits. */
  draft = $state<string | null>((history.state as HistoryState | null)?.draft ?? null);

  constructor() {
    addEventListener('popstate', (event) => {
      const before = this.at.query;
      const state = event.state as HistoryState | null;
      this.at = fromSearch(location.search);
      this.depth = state?.depth ?? 0;
      if (this.at.query !== before || state?.draft !== undefined) this.draft = state?.draft ?? null;
    });
  }

  /** The text in the query bar. */
  get text(): string {
    return this.draft ?? this.at.query;
  }

  write(text: string): void {
    this.draft = text === this.at.query ? null : text;
  }

  /** Goes to a changed state; with `replace` there is no step to go back to. */
  go(change: Partial<ViewState>, replace = false): void {
    const next = { ...this.at, ...change };
    const draft = this.draft;
    // A caller that sets a query replaces the draft.
    if (change.query !== undefined) this.draft = null;
    const search = toSearch(next);
    if (search === toSearch(this.at)) {
      this.at = next;
      return;
    }
    const url = search === '' ? location.pathname : search;
    if (replace) {
      history.replaceState({ depth: this.depth } satisfies HistoryState, '', url);
    } else {
      // Going back restores what was typed besides, but not the text that was run: the box shows the query of its lines.
      const isRun = change.query === undefined || draft?.trim() === change.query.trim();
      if (draft !== null && this.draft === null && !isRun) history.replaceState({ depth: this.depth, draft } satisfies HistoryState, '');
      this.depth++;
      history.pushState({ depth: this.depth } satisfies HistoryState, '', url);
    }
    this.at = next;
  }

  /** The URL of a changed state, for real links. */
  href(change: Partial<ViewState>): string {
    return toSearch({ ...this.at, ...change }) || location.pathname;
  }

  /** Runs the shown query again. */
  rerun(): void {
    this.runs++;
  }
}

export const app = new App();

/** Scrolls to the beginning of a new result. */
export function toTop(): void {
  document.querySelector('main')?.scrollTo({ top: 0 });
}

/** Follows a link within the page, unless the browser is to open it elsewhere. */
export function follow(event: MouseEvent, change: Partial<ViewState>): void {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  app.go(change);
}
