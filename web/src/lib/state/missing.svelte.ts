// The stores whose lines the last answer lacks, where the server answers for several.

import { onMissing } from '../api/call';

class MissingStores {
  stores = $state('');
}

export const missing = new MissingStores();

onMissing((stores) => {
  missing.stores = stores;
});
