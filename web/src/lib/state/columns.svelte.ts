// The columns of the list of lines: those of the link, else those of this browser's last visit.

import { app } from './app.svelte';
import { addColumn, DEFAULT_COLUMNS, formatColumns, hasColumn, parseColumns, removeColumn, type Column } from '../lines/columns';
import { prefs } from './prefs.svelte';

class Columns {
  readonly list = $derived<readonly Column[]>(app.at.columns ?? (prefs.columns === null ? DEFAULT_COLUMNS : parseColumns(prefs.columns)));

  /** The columns in the link and for the next visit. */
  set(columns: readonly Column[]): void {
    prefs.set({ columns: formatColumns(columns) });
    app.go({ columns }, true);
  }

  reset(): void {
    prefs.set({ columns: null });
    app.go({ columns: null }, true);
  }

  has(field: string): boolean {
    return hasColumn(this.list, field);
  }

  /** Adds or removes the column of a field; `values` tell how wide it has to be. */
  toggle(field: string, values: readonly string[] = []): void {
    this.set(this.has(field) ? removeColumn(this.list, field) : addColumn(this.list, field, values));
  }

  /** Writes the columns of the last visit into the link, so that its copy shows the same. */
  tellLink(): void {
    if (app.at.columns === null && prefs.columns !== null) app.go({ columns: this.list }, true);
  }
}

export const columns = new Columns();
