import { afterEach, expect, test, vi } from 'vitest';
import { ANYBODY } from '../../src/lib/api/access';
import { SAVED_MAX } from '../../src/lib/query/savedQueries';
import { queries } from '../../src/lib/state/queries.svelte';
import { session } from '../../src/lib/state/session.svelte';

afterEach(() => vi.unstubAllGlobals());

test('a query that finds no place beside those of others is not called saved', async () => {
  const full = Array.from({ length: SAVED_MAX }, (_, at) => ({ name: `q${at}`, query: '*' }));
  const documents = [{ version: 1, queries: [] }, { version: 2, queries: full }];
  const methods: string[] = [];
  vi.stubGlobal('fetch', (_: string, { method = 'GET' }: RequestInit = {}) => {
    methods.push(method);
    return Promise.resolve(method === 'PUT' ? Response.json({ error: 'somebody has changed it' }, { status: 409 }) : Response.json(documents.shift()));
  });
  session.me = ANYBODY;
  await queries.load();
  expect(queries.isSharing).toBe(true);
  expect(await queries.save({ name: 'mine', query: 'a' })).toBe(false);
  expect(queries.error).toContain(`There are ${SAVED_MAX} saved queries`);
  expect(methods).toEqual(['GET', 'PUT', 'GET']);
});
