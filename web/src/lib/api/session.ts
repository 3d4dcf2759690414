// The session with the server, as typed calls.

import { ApiError, call, json, toError } from './call';

/** `/api/v1/me`; see access.ts. */
export function whoAmI(): Promise<unknown> {
  return json('/api/v1/me', {});
}

/** Begins a session; the browser keeps the cookie. The password is sent in a form, never in a URL. */
export async function logIn(name: string, password: string): Promise<unknown> {
  const body = new URLSearchParams({ name, password });
  let response: Response;
  try {
    response = await fetch('/api/v1/login', { method: 'POST', body, cache: 'no-store' });
  } catch {
    throw new ApiError('The server cannot be reached. Is Loginson running?', 0);
  }
  if (!response.ok) throw await toError(response);
  return response.json();
}

export async function logOut(): Promise<void> {
  await call('/api/v1/logout', {}, {}, 'POST');
}
