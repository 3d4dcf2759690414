import { describe, expect, test } from 'vitest';
import { ANYBODY, isSomebodyElse, loggedOut, loginBy, mayOperate, meOf, screenOf, seesAllQueries, whoText, type Me } from '../../src/lib/api/access';

const of = (role: Me['role'], name: string | null = 'ann'): Me => ({ login: 'on', name, role, exposed: false, restricted: false, passwords: true, providers: [] });

describe('what the page shows', () => {
  test('by role', () => {
    expect(screenOf(ANYBODY)).toBe('views');
    expect(screenOf(of(null, null))).toBe('login');
    expect(screenOf(of('ingest'))).toBe('nothing');
    for (const role of ['read', 'operate', 'admin'] as const) expect(screenOf(of(role))).toBe('views');
    expect([of('ingest'), of('read'), of('operate'), of('admin')].map(seesAllQueries)).toEqual([false, false, true, true]);
    expect([of('ingest'), of('read'), of('operate'), of('admin')].map(mayOperate)).toEqual([false, false, true, true]);
  });

  test('the name in the header', () => {
    expect(whoText(ANYBODY)).toBeNull();
    expect(whoText(of('read'))).toBe('ann (read)');
    expect(whoText(of(null, null))).toBeNull();
  });
});

test('anything but an answer of the server counts as not logged in', () => {
  expect(meOf({ login: 'on', name: 'ann', role: 'admin', exposed: false })).toEqual(of('admin'));
  expect(meOf({ login: 'off', name: null, role: 'admin', exposed: true })).toEqual({ ...ANYBODY, exposed: true });
  for (const answer of [null, undefined, {}, 'x', [], { role: 'root', name: 7, login: 1 }]) {
    expect(meOf(answer)).toEqual(of(null, null));
  }
});

test('who sees some of the lines only is not asked for the state of the server', () => {
  const restricted = meOf({ login: 'on', name: 'ann', role: 'read', exposed: false, restricted: true });
  expect(restricted).toEqual({ ...of('read'), restricted: true });
  expect(loggedOut(restricted).restricted).toBe(false);
});

test('another user is told from the one before', () => {
  expect(isSomebodyElse(null, of('read'))).toBe(false);
  expect(isSomebodyElse('ann', of('admin'))).toBe(false);
  expect(isSomebodyElse('ann', of('read', 'bob'))).toBe(true);
});

test('a login by a provider leads back to the same view', () => {
  expect(meOf({ providers: ['corp', 7], passwords: false })).toEqual({ ...of(null, null), passwords: false, providers: ['corp'] });
  expect(loginBy('a.b', '/?view=status&query=a b#x')).toBe('/api/v1/login/oidc/a.b?to=%2F%3Fview%3Dstatus%26query%3Da+b%23x');
  expect(loggedOut({ ...of('admin'), providers: ['corp'] })).toEqual({ ...of(null, null), providers: ['corp'] });
  expect(loggedOut(null)).toEqual(of(null, null));
});
