// Where the page is: the one place that reads and writes the URL.

import { fromSearch, toSearch, type ViewState } from './urlstate';

interface HistoryState {
  /** How many steps of this page lie behind; `back` is offered only when there are some. */
  depth: number;
}

class App {
  at = $state.raw<ViewState>(fromSearch(location.search));
  /** Counts up when the same query is to be run again. */
  runs = $state(0);
  depth = $state((history.state as HistoryState | null)?.depth ?? 0);

  constructor() {
    addEventListener('popstate', (event) => {
      this.at = fromSearch(location.search);
      this.depth = (event.state as HistoryState | null)?.depth ?? 0;
    });
  }

  /** Goes to a changed state; `replace` leaves no step to come back to. */
  go(change: Partial<ViewState>, replace = false): void {
    const next = { ...this.at, ...change };
    const search = toSearch(next);
    if (search === toSearch(this.at)) {
      this.at = next;
      return;
    }
    const url = search === '' ? location.pathname : search;
    if (replace) {
      history.replaceState({ depth: this.depth } satisfies HistoryState, '', url);
    } else {
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

/** Follows an in-page link, unless the browser is to open it elsewhere. */
export function follow(event: MouseEvent, change: Partial<ViewState>): void {
  if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  app.go(change);
}
