// Dashboards and notebooks as typed calls: `GET /api/v1/dashboards`, and `GET`, `PUT`, `DELETE /api/v1/dashboards/ID`. Nothing
// here keeps state.
//
// A document is `{id, title, version, panels}`, a notebook has `cells` besides. `PUT` sends the version that was read, 0 for
// a new one; the server answers with the document and its next version, or with 409 if somebody else has changed it
// meanwhile.

import { ApiError, call, json, type CallOptions } from './call';
import { readDashboard, type Dashboard } from '../chart/dashboards';

export interface DashboardEntry {
  id: string;
  title: string;
  version: number;
}

/** A document from what the server sent, or what is wrong with it. */
export type Read<T> = (value: unknown) => T | { error: string };

const PATH = '/api/v1/dashboards';

/** All documents, whatever they are. */
export async function dashboards(options: CallOptions = {}): Promise<DashboardEntry[]> {
  const answer = await json<{ dashboards: DashboardEntry[] }>(PATH, {}, options);
  return answer.dashboards;
}

function checked<T extends object>(value: unknown, read: Read<T>): T {
  const found = read(value);
  if ('error' in found) throw new ApiError(`The server sent a document that this page cannot read. ${String(found.error)}`, 200);
  return found;
}

export async function savedDocument<T extends object>(id: string, read: Read<T>, options: CallOptions = {}): Promise<T> {
  return checked(await json<unknown>(`${PATH}/${encodeURIComponent(id)}`, {}, options), read);
}

export async function dashboardOf(id: string, options: CallOptions = {}): Promise<Dashboard> {
  return savedDocument(id, readDashboard, options);
}

/** Returns the document as it was saved, with its next version. */
export async function saveDocument<T extends object>(id: string, written: Record<string, unknown>, read: Read<T>): Promise<T> {
  const body = { type: 'application/json', text: JSON.stringify(written) };
  const response = await call(`${PATH}/${encodeURIComponent(id)}`, {}, { body }, 'PUT');
  return checked(await response.json(), read);
}

export async function deleteDocument(id: string): Promise<void> {
  await call(`${PATH}/${encodeURIComponent(id)}`, {}, {}, 'DELETE');
}
