// Who uses what, for operators.

import { json, type CallOptions } from './call';

export interface OwnerUsage {
  /** The user or token, or the address where nobody logs in. */
  owner: string;
  running: number;
  waiting: number;
  tails: number;
  memory_bytes: number;
  results_bytes: number;
  /** What ended in the last minutes. */
  lately: { queries: number; refused: number; run_s: number; lines_scanned: number; bytes_scanned: number; rows: number };
}

export interface Usage {
  minutes: number;
  owners: OwnerUsage[];
}

export function usage(options?: CallOptions): Promise<Usage> {
  return json<Usage>('/api/v1/usage', {}, options);
}
