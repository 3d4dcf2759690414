import { afterEach, expect, test, vi } from 'vitest';
import { ANYBODY } from '../../src/lib/api/access';
import { AlertHistory } from '../../src/lib/state/alerts.svelte';
import { session } from '../../src/lib/state/session.svelte';
import { serverStatus } from '../../src/lib/state/status.svelte';
import { Watch } from '../../src/lib/state/watch.svelte';

afterEach(() => {
  vi.unstubAllGlobals();
  session.me = null;
});

test('what is refused to who sees some of the lines only is not asked for', async () => {
  const asked: string[] = [];
  vi.stubGlobal('fetch', (url: string) => {
    asked.push(url);
    return Promise.resolve(Response.json({ error: 'refused' }, { status: 403 }));
  });
  session.me = { ...ANYBODY, login: 'on', name: 'ann', role: 'read', restricted: true };
  const watch = new Watch();
  await Promise.all([serverStatus.poll(), watch.run(), new AlertHistory().load({ startMs: 0, endMs: 1 })]);
  expect(asked).toEqual([]);
  expect([watch.isAsked, watch.answer, serverStatus.trouble()]).toEqual([true, null, null]);
});
