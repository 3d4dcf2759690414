// Users and tokens, as typed calls for administrators. Secrets are sent in bodies, never in addresses.

import { call, json, type CallOptions } from './call';
import type { Role } from './access';

/** What can be chosen, the least powerful first. */
export const ROLES: readonly Role[] = ['ingest', 'read', 'auditor', 'node', 'operate', 'admin'];

/** The limits of a user or token, as answers of the server name them; null: those of the server. */
export interface Limits {
  queries_max: number | null;
  background_max: number | null;
  tails_max: number | null;
  run_s_max: number | null;
  memory_bytes_max: number | null;
  rows_max: number | null;
  results_bytes_max: number | null;
}

/** The names of limits in requests. */
const LIMITS = ['queries_max', 'background_max', 'tails_max', 'run_max', 'memory_bytes_max', 'rows_max', 'results_bytes_max'];

export interface User {
  name: string;
  /** Null for a user whom no rule lets in any more. */
  role: Role | null;
  /** `configuration`: changed there; `api`: changed here; else the provider that the user logged in by. */
  from: string;
  /** The lines that are seen; null: all. */
  filter: string | null;
  hide_fields: string[];
  limits: Limits;
  /** The tenant that it is bound to; null: none. */
  tenant: string | null;
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
  /** As {@link limitsText} writes them. */
  limits: string;
}

function sees(of: Sees): Record<string, string> {
  return { ...(of.filter === '' ? {} : { filter: of.filter }), ...(of.hideFields === '' ? {} : { hide_fields: of.hideFields }), ...limitsOf(of.limits) };
}

/** Limits as they are typed, such as `queries_max=2 run_max=5s`. */
export function limitsText(limits: Limits): string {
  const { run_s_max: runS, ...others } = limits;
  const all = { ...others, run_max: runS === null ? null : `${runS}s` };
  const set = LIMITS.flatMap((name) => {
    const value = all[name as keyof typeof all];
    return value === null ? [] : [`${name}=${value}`];
  });
  return set.join(' ');
}

/**
 * The fields of a request for typed limits. The server checks names and values.
 *
 * @throws Error if a part is no `NAME=VALUE`.
 */
export function limitsOf(text: string): Record<string, string> {
  const parts = text.split(/[\s,]+/).filter((part) => part !== '');
  return Object.fromEntries(
    parts.map((part) => {
      const [name = '', ...value] = part.split('=');
      if (!LIMITS.includes(name) || value.length !== 1 || value[0] === '')
        throw new Error(`'${part}' is no limit; write them as queries_max=2 run_max=5s. Limits: ${LIMITS.join(', ')}`);
      return [name, value[0] ?? ''];
    }),
  );
}

/** Sets the limits of a user; one that is not in the text is taken away. Throws as {@link limitsOf}. */
export async function limitUser(name: string, text: string): Promise<void> {
  const none = Object.fromEntries(LIMITS.map((limit) => [limit, '']));
  await call(`/api/v1/users/${encodeURIComponent(name)}`, {}, body({ ...none, ...limitsOf(text) }), 'POST');
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
