import { afterEach, expect, test, vi } from 'vitest';
import { keptRuleFile } from '../../src/lib/api/alerts';
import { alertsState } from '../../src/lib/state/alerts.svelte';

afterEach(() => vi.unstubAllGlobals());

test('a draft of rules keeps the text that it was begun from', () => {
  expect(alertsState.baseOf('web.yml', 'a')).toBe('a');
  alertsState.write('web.yml', 'mine', 'a');
  // Somebody else has saved meanwhile, and the file was read again.
  alertsState.write('web.yml', 'mine too', 'theirs');
  expect(alertsState.baseOf('web.yml', 'theirs')).toBe('a');
  alertsState.rebase('web.yml', 'theirs');
  expect(alertsState.baseOf('web.yml', 'x')).toBe('theirs');
  alertsState.write('web.yml', null, null);
  expect(alertsState.baseOf('web.yml', 'b')).toBe('b');
  // A new file is begun from nothing.
  alertsState.write('\n*', 'new', null);
  expect(alertsState.baseOf('\n*', 'x')).toBeNull();
  alertsState.write('\n*', null, null);
});

test('a file of rules that is not there has no text', async () => {
  let answer = (): Response => Response.json({ error: 'no such file' }, { status: 404 });
  vi.stubGlobal('fetch', () => Promise.resolve(answer()));
  expect(await keptRuleFile('web.yml')).toBeNull();
  answer = () => new Response('groups: []');
  expect(await keptRuleFile('web.yml')).toBe('groups: []');
  answer = () => Response.json({ error: 'the disk is full' }, { status: 507 });
  await expect(keptRuleFile('web.yml')).rejects.toThrow('the disk is full');
});
