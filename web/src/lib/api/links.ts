// Short links: the server keeps the address of a view, and gives it an id.

import { json, type CallOptions } from './call';

const PATH = '/api/v1/links';

/** The id of a link in the address of the page, if it is one. */
export function linkIn(search: string): string | null {
  return new URLSearchParams(search).get('l');
}

/** A short link to an address of the page, which begins with `?`. */
export async function shortLink(search: string): Promise<string> {
  if (search === '') return `${location.origin}${location.pathname}`;
  const { id } = await json<{ id: string }>(PATH, {}, { body: { type: 'text/plain', text: search } }, 'POST');
  return `${location.origin}${location.pathname}?l=${id}`;
}

/** The address that a link stands for. */
export async function addressOf(id: string, options: CallOptions = {}): Promise<string> {
  const { address } = await json<{ address: string }>(`${PATH}/${encodeURIComponent(id)}`, {}, options);
  return address;
}
