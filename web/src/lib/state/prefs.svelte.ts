// Preferences that are stored in the browser, not in the link: theme, time zone, wrapping, the panel of fields,
// and the columns of lines for the next visit.

export type Theme = 'auto' | 'light' | 'dark';

interface Stored {
  theme: Theme;
  utc: boolean;
  wrap: boolean;
  facets: boolean;
  /** As a text of lib/columns.ts; null for the default. */
  columns: string | null;
}

const KEY = 'loginson.prefs';
const DEFAULTS: Stored = { theme: 'auto', utc: false, wrap: false, facets: true, columns: null };

function load(): Stored {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<Stored>;
    const columns = typeof stored.columns === 'string' ? stored.columns : null;
    return { ...DEFAULTS, ...stored, columns };
  } catch {
    return { ...DEFAULTS };
  }
}

class Prefs {
  theme = $state<Theme>('auto');
  utc = $state(false);
  wrap = $state(false);
  facets = $state(true);
  columns = $state<string | null>(null);

  constructor() {
    Object.assign(this, load());
  }

  set(change: Partial<Stored>): void {
    Object.assign(this, change);
    const { theme, utc, wrap, facets, columns } = this;
    try {
      localStorage.setItem(KEY, JSON.stringify({ theme, utc, wrap, facets, columns }));
    } catch {
      // If the browser forbids storage, the choice is lost on reload; nothing else depends on it.
    }
  }

  /** auto → light → dark → auto. */
  nextTheme(): void {
    this.set({ theme: this.theme === 'auto' ? 'light' : this.theme === 'light' ? 'dark' : 'auto' });
  }
}

export const prefs = new Prefs();

/** Whether the screen is as narrow as a phone's. Styles use the same limit: `@media (max-width: 700px)`. */
class Narrow {
  is = $state(false);

  constructor() {
    const media = matchMedia('(max-width: 700px)');
    this.is = media.matches;
    media.addEventListener('change', () => (this.is = media.matches));
  }
}

export const narrow = new Narrow();
