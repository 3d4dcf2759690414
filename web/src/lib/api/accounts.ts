// Users and tokens, as typed calls for administrators. Secrets are sent in bodies, never in addresses.

import { call, json, type CallOptions } from './call';
import type { Role } from './access';

/** What can be chosen, the least powerful first. */
export const ROLES: readonly Role[] = ['ingest', 'read', 'auditor', 'node', 'operate', 'admin'];

export interface User {
  name: string;
  /** Null for a user whom no rule lets in any more. */
  role: Role | null;
  /** `configuration`: changed there; `api`: changed here; else the provider that the user logged in by. */
  from: string;
  /** The lines that are seen; null: all. */
  filter: string | null;
  hide_fields: string[];
  created: string | null;
}

export interface Token extends User {
  expires: string | null;
  expired: boolean;
  last_used: string | null;
  /** Until when the token before the last rotation is valid. */
  previous_valid_until: string | null;
}

export async function users(options?: CallOptions): Promise<User[]> {
  return (await json<{ users: User[] }>('/api/v1/users', {}, options)).users;
}

export async function tokens(options?: CallOptions): Promise<Token[]> {
  return (await json<{ tokens: Token[] }>('/api/v1/tokens', {}, options)).tokens;
}

function body(fields: Record<string, string>): CallOptions {
  return { body: { type: 'application/json', text: JSON.stringify(fields) } };
}

/** What a user or a token of the role `read` sees; empty texts: everything. */
export interface Sees {
  filter: string;
  hideFields: string;
}

function sees(of: Sees): Record<string, string> {
  return { ...(of.filter === '' ? {} : { filter: of.filter }), ...(of.hideFields === '' ? {} : { hide_fields: of.hideFields }) };
}

export async function addUser(name: string, role: Role, password: string, of: Sees): Promise<void> {
  await call('/api/v1/users', {}, body({ name, role, password, ...sees(of) }), 'POST');
}

export async function removeUser(name: string): Promise<void> {
  await call(`/api/v1/users/${encodeURIComponent(name)}`, {}, {}, 'DELETE');
}

/** Returns the token, which the server shows this once. */
export async function addToken(name: string, role: Role, expires: string, of: Sees): Promise<string> {
  const fields = { name, role, ...(expires === '' ? {} : { expires }), ...sees(of) };
  return (await json<{ token: string }>('/api/v1/tokens', {}, body(fields), 'POST')).token;
}

/** Returns the new token. */
export async function rotateToken(name: string, overlap: string): Promise<string> {
  const path = `/api/v1/tokens/${encodeURIComponent(name)}/rotate`;
  return (await json<{ token: string }>(path, {}, body({ overlap }), 'POST')).token;
}

export async function revokeToken(name: string): Promise<void> {
  await call(`/api/v1/tokens/${encodeURIComponent(name)}`, {}, {}, 'DELETE');
}
