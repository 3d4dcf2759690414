// What the last answer lacks: the lines of stores that are away, damaged lines, and what engines of a cluster do not tell.

import { onMissing, type Notice } from '../api/call';

class Missing {
  stores = $state('');
  /** One sentence, or nothing. */
  lines = $state('');
  /** What does not answer in a cluster; then the others say the same in other words. */
  notices = $state.raw<Notice[]>([]);
}

export const missing = new Missing();

onMissing((stores, lines, notices) => {
  missing.stores = stores;
  missing.lines = lines;
  missing.notices = notices;
});
