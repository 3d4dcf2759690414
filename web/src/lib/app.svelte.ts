// Where the page is: the one place that reads and writes the URL.

import { fromSearch, toSearch, type ViewState } from './urlstate';

interface HistoryState {
  /** How many steps of this page lie behind; `back` is offered only when there are some. */
  depth: number;
  /** What was written in the query bar and not run when this state was left. */
  draft?: string;
}

class App {
  at = $state.raw<ViewState>(fromSearch(location.search));
  /** Counts up when the same query is to be run again. */
  runs = $state(0);
  depth = $state((history.state as HistoryState | null)?.depth ?? 0);
  /** What is written in the query bar and not run yet, through all views; null when it is the query. */
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

  /** What the query bar shows. */
  get text(): string {
    return this.draft ?? this.at.query;
  }

  write(text: string): void {
    this.draft = text === this.at.query ? null : text;
  }

  /** Goes to a changed state; `replace` leaves no step to come back to. */
  go(change: Partial<ViewState>, replace = false): void {
    const next = { ...this.at, ...change };
    const draft = this.draft;
    // Whoever gives a query means it, and made it of the draft if it was to be kept.
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
      // Back brings the draft back too.
      if (draft !== null && this.draft === null) history.replaceState({ depth: this.depth, draft } satisfies HistoryState, '');
      this.depth++;
      history.pushState({ depth: this.depth } satisfies HistoryState, '', url);
    }
    this.at = next;
  }

  /** The link to a changed state, for real anchors. */
  href(change: Partial<ViewState>): string {
    return toSearch({ ...this.at, ...change }) || location.pathname;
  }

  /** Runs what is shown again. */
  rerun(): void {
    this.runs++;
  }
}

export const app = new App();

/** A new result is read from its beginning. */
export function toTop(): void {
  document.querySelector('main')?.scrollTo({ top: 0 });
}

/** Follows an in-page link, unless the browser is to open it elsewhere. */
export function follow(event: MouseEvent, change: Partial<ViewState>): void {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  app.go(change);
}
