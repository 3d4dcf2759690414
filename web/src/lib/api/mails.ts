// Dashboards by mail as typed calls: `/api/v1/dashboards/ID/mails`. Nothing here keeps state.

import { call, json } from './call';
import type { Chosen } from '../query/variables';

export const EVERY = ['day', 'week', 'month'] as const;
export type Every = (typeof EVERY)[number];

/** What is chosen for a schedule. */
export interface Wanted {
  /** The receiver of alerts by whose mail server it is sent. */
  receiver: string;
  /** To whom; nobody: to the addresses of the receiver. */
  addresses: readonly string[];
  every: Every;
  hour: number;
  minute: number;
  /** 1 is Monday. */
  weekdays: readonly number[];
  month_day: number | null;
  zone: string;
  range: string;
  variables: Chosen;
}

export interface Schedule {
  id: string;
  /** Null where nobody logs in. */
  owner: string | null;
  /** Why nothing is sent with the rights of its owner; null if it is. */
  owner_error: string | null;
  wanted: Wanted;
  next: string | null;
  sent: string | null;
  error: string | null;
  error_time: string | null;
  /** What the last mail lacked. */
  notes: string[];
}

export interface Mails {
  mails: Schedule[];
  receivers: string[];
  may_choose_addresses: boolean;
  /** Why this user cannot make one; null if it can. */
  refusal: string | null;
}

export interface SentNow {
  delivered: boolean;
  error: string | null;
  notes: string[];
}

const path = (dashboard: string, mail = ''): string => `/api/v1/dashboards/${encodeURIComponent(dashboard)}/mails${mail === '' ? '' : `/${encodeURIComponent(mail)}`}`;

export async function mailsOf(dashboard: string): Promise<Mails> {
  return json<Mails>(path(dashboard), {});
}

export async function saveMail(dashboard: string, id: string, wanted: Wanted): Promise<void> {
  await call(path(dashboard, id), {}, { body: { type: 'application/json', text: JSON.stringify(wanted) } }, 'PUT');
}

export async function deleteMail(dashboard: string, id: string): Promise<void> {
  await call(path(dashboard, id), {}, {}, 'DELETE');
}

export async function sendMail(dashboard: string, id: string): Promise<SentNow> {
  return json<SentNow>(`${path(dashboard, id)}/send`, {}, {}, 'POST');
}
