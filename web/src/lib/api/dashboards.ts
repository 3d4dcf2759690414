// Dashboards as typed calls: `GET /api/v1/dashboards`, and `GET`, `PUT`, `DELETE /api/v1/dashboards/ID`. Nothing here keeps
// state.
//
// A document is `{id, title, version, panels}`. `PUT` sends the version that was read, 0 for a new one; the server answers
// with the document and its next version, or with 409 if somebody else has changed it meanwhile.

import { ApiError, call, json, type CallOptions } from './call';
import { readDashboard, writeDashboard, type Dashboard } from '../chart/dashboards';

export interface DashboardEntry {
  id: string;
  title: string;
  version: number;
}

const PATH = '/api/v1/dashboards';

export async function dashboards(options: CallOptions = {}): Promise<DashboardEntry[]> {
  const answer = await json<{ dashboards: DashboardEntry[] }>(PATH, {}, options);
  return answer.dashboards;
}

function checked(value: unknown): Dashboard {
  const read = readDashboard(value);
  if ('error' in read) throw new ApiError(`The server sent a dashboard that this page cannot read. ${read.error}`, 200);
  return read;
}

export async function dashboardOf(id: string, options: CallOptions = {}): Promise<Dashboard> {
  return checked(await json<unknown>(`${PATH}/${encodeURIComponent(id)}`, {}, options));
}

/** Returns the dashboard as it was saved, with its next version. */
export async function saveDashboard(dashboard: Dashboard): Promise<Dashboard> {
  const body = { type: 'application/json', text: JSON.stringify(writeDashboard(dashboard)) };
  const response = await call(`${PATH}/${encodeURIComponent(dashboard.id)}`, {}, { body }, 'PUT');
  return checked(await response.json());
}

export async function deleteDashboard(id: string): Promise<void> {
  await call(`${PATH}/${encodeURIComponent(id)}`, {}, {}, 'DELETE');
}
