// The dashboards of the server, and the one that is shown.

import { idFor, readDashboard, writeDashboard, type Dashboard } from '../chart/dashboards';
import { SavedDocuments } from './saved.svelte';

// Documents of other kinds have ids that begin with an underscore.
export const dashboardsState = new SavedDocuments<Dashboard>({ isOne: (id) => !id.startsWith('_'), idFor, read: readDashboard, write: writeDashboard, refuses: () => null });
