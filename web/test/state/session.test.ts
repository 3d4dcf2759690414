import { afterEach, expect, test, vi } from 'vitest';
import { session } from '../../src/lib/state/session.svelte';

afterEach(() => vi.unstubAllGlobals());

test('a page notices who logged in in another tab', async () => {
  let me: { login: string; name: string | null; role: string | null } = { login: 'on', name: 'ann', role: 'read' };
  let isAway = false;
  let reloads = 0;
  vi.stubGlobal('fetch', () => (isAway ? Promise.reject(new TypeError('away')) : Promise.resolve(Response.json(me))));
  vi.stubGlobal('location', { reload: () => reloads++ });
  await session.load();
  await session.check();
  expect([reloads, session.screen]).toEqual([0, 'views']);
  isAway = true;
  await session.check();
  expect([reloads, session.screen]).toEqual([0, 'views']);
  isAway = false;
  me = { ...me, name: 'bob' };
  await session.check();
  expect([reloads, session.screen]).toEqual([1, 'views']);
  me = { login: 'on', name: null, role: null };
  await session.check();
  expect([reloads, session.screen, session.ended]).toEqual([1, 'login', true]);
});
