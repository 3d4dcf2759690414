import { afterEach, describe, expect, test, vi } from 'vitest';
import { limitsOf, limitsText, limitUser, type Limits } from '../../src/lib/api/accounts';

const none: Limits = {
  queries_max: null, background_max: null, tails_max: null, run_s_max: null, memory_bytes_max: null, rows_max: null, results_bytes_max: null,
};

describe('limits of a user', () => {
  afterEach(() => vi.unstubAllGlobals());

  test('are typed as they are shown', () => {
    expect(limitsText(none)).toBe('');
    const limits = { ...none, queries_max: 2, tails_max: 0, run_s_max: 2.5, memory_bytes_max: 1024 };
    expect(limitsText(limits)).toBe('queries_max=2 tails_max=0 run_max=2.5s memory_bytes_max=1024');
    expect(limitsOf(limitsText(limits))).toEqual({ queries_max: '2', tails_max: '0', run_max: '2.5s', memory_bytes_max: '1024' });
    expect(limitsOf(' rows_max=9,\n run_max=1m ')).toEqual({ rows_max: '9', run_max: '1m' });
    expect(limitsOf('')).toEqual({});
  });

  test('that are none are named', () => {
    for (const text of ['queries', 'queries_max', 'queries_max=', 'queries_max=1=2', 'password=x', 'role=admin'])
      expect(() => limitsOf(text)).toThrow(`'${text}' is no limit; write them as queries_max=2 run_max=5s`);
  });

  test('that are not in the text are taken away', async () => {
    const sent: { path: string; body: string }[] = [];
    vi.stubGlobal('fetch', (path: string, init: RequestInit) => {
      sent.push({ path, body: String(init.body) });
      return Promise.resolve(new Response('{}', { status: 200 }));
    });
    await limitUser('ann/b', 'queries_max=3');
    expect(sent.map((one) => one.path)).toEqual([expect.stringContaining('/api/v1/users/ann%2Fb')]);
    expect(JSON.parse(sent[0]?.body ?? '')).toEqual({
      queries_max: '3', background_max: '', tails_max: '', run_max: '', memory_bytes_max: '', rows_max: '', results_bytes_max: '',
    });
  });
});
