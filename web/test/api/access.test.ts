import { describe, expect, test } from 'vitest';
import { ANYBODY, mayOperate, meOf, screenOf, seesAllQueries, whoText, type Me } from '../../src/lib/api/access';

const of = (role: Me['role'], name: string | null = 'ann'): Me => ({ login: 'on', name, role, exposed: false });

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
