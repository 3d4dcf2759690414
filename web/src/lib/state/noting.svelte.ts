// What somebody is about to add to a notebook; the dialog asks to which. In a file of its own, since the first view has it.

import type { Row } from '../base/jsonl';
import type { Span } from '../base/time';
import type { ChartOptions } from '../chart/options';

export interface Noted {
  title: string;
  /** What is said above the result; may be empty. */
  text: string;
  query: string;
  span: Span;
  view: 'lines' | 'table' | 'chart';
  options: ChartOptions;
  /** The rows that are shown, the query that they answer, and whether there are more; null if they are to be asked for. */
  answer: { query: string; rows: readonly Row[]; isCut: boolean } | null;
}

class Noting {
  what = $state.raw<Noted | null>(null);
}

export const noting = new Noting();
