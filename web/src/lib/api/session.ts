// The session with the server, as typed calls.

import { ApiError, call, json, toError } from './call';

/** `/api/v1/me`; see access.ts. */
export function whoAmI(): Promise<unknown> {
  return json('/api/v1/me', {});
}

/** Begins a session; the browser keeps the cookie. The password is sent in a form, never in a URL. */
export function logIn(name: string, password: string): Promise<unknown> {
  return send('/api/v1/login', { name, password });
}

/** Makes the first administrator; `secret` is that of the link in the log of the server. */
export function makeFirstAdmin(secret: string, name: string, password: string): Promise<unknown> {
  return send('/api/v1/first-admin', { secret, name, password });
}

/** Posts secrets, in a form. A refusal is for the form to show, and does not end the session. */
async function send(path: string, fields: Record<string, string>): Promise<unknown> {
  const body = new URLSearchParams(fields);
  let response: Response;
  try {
    response = await fetch(path, { method: 'POST', body, cache: 'no-store' });
  } catch {
    throw new ApiError('The server cannot be reached. Is Loginson running?', 0);
  }
  if (!response.ok) throw await toError(response);
  return response.json();
}

/** Ends the session. The address at which the browser logs out at its provider as well, if there is one. */
export async function logOut(): Promise<string | null> {
  const response = await call('/api/v1/logout', {}, {}, 'POST');
  const { next } = (await response.json()) as { next?: unknown };
  return typeof next === 'string' && /^https?:\/\//.test(next) ? next : null;
}
