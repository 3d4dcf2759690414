// What the watch of the server found, as a typed call.

import { json, type CallOptions } from './call';

export type FoundKind = 'silent' | 'new' | 'step' | 'rhythm' | 'more' | 'less';

export interface Found {
  id: number;
  kind: FoundKind;
  /** Empty for all lines. */
  field: string;
  value: string;
  /** The filter of the lines that stand out. */
  filter: string;
  since: string;
  /** Null while it lasts. */
  until: string | null;
  /** Lines in an interval, on average. */
  seen: number;
  expected: number;
  interval_s: number;
  /** How long the lines were watched before. */
  history_s: number;
  reason: string;
  /** The finding that it is most likely a part of. */
  part_of: number | null;
}

export interface StandsOut {
  state: 'off' | 'learning' | 'watching';
  /** The first minute that was watched; left out if the watch is off, null before it knows one. */
  since?: string | null;
  findings: Found[];
}

export function standsOut(options: CallOptions): Promise<StandsOut> {
  return json('/api/v1/stands_out', {}, options);
}
