// The notebooks of the server, and the one that is shown.

import { NOTEBOOK_PREFIX, notebookIdFor, readNotebook, tooLarge, writeNotebook, type Notebook } from '../chart/notebook';
import { SavedDocuments } from './saved.svelte';

export const notebooksState = new SavedDocuments<Notebook>({ isOne: (id) => id.startsWith(NOTEBOOK_PREFIX), idFor: notebookIdFor, read: readNotebook, write: writeNotebook, refuses: tooLarge });
