// What the last answer lacks: the lines of stores that are away, and damaged lines.

import { onMissing } from '../api/call';

class Missing {
  stores = $state('');
  /** One sentence, or nothing. */
  lines = $state('');
}

export const missing = new Missing();

onMissing((stores, lines) => {
  missing.stores = stores;
  missing.lines = lines;
});
