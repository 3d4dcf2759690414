import { describe, expect, test } from 'vitest';
import { HISTORY_MAX, QUERY_CHARS_MAX, readHistory, remember, Walk } from '../../src/lib/query/queryHistory';
import { NAME_CHARS_MAX, readSaved, SAVED_MAX, withoutSaved, withSaved, writeSaved } from '../../src/lib/query/savedQueries';

describe('history', () => {
  test('has each query once, the newest first, and a bound', () => {
    expect(remember(['a', 'b', 'c'], 'b')).toEqual(['b', 'a', 'c']);
    expect(remember(['a'], '')).toEqual(['a']);
    expect(remember(['a'], 'x'.repeat(QUERY_CHARS_MAX))).toHaveLength(2);
    expect(remember(['a'], 'x'.repeat(QUERY_CHARS_MAX + 1))).toEqual(['a']);
    const full = Array.from({ length: HISTORY_MAX }, (_, at) => `q${at}`);
    expect(remember(full, 'new')).toEqual(['new', ...full.slice(0, -1)]);
  });

  test.each([null, '', '{', '{}', '[1, null]', '"x"'])('%j is no history', (text) => expect(readHistory(text)).toEqual([]));

  test('a walk begins in an empty or unchanged box, ends at both ends, and comes back', () => {
    const history = ['c', 'b', 'a'];
    const walk = new Walk();
    expect(walk.step(history, 1, '', false)).toBeNull();
    expect(walk.step(history, -1, '', false)).toBe('c');
    expect(walk.step(history, -1, 'c', true)).toBe('b');
    expect(walk.step(history, -1, 'b', true)).toBe('a');
    expect(walk.step(history, -1, 'a', true)).toBeNull();
    expect(walk.step(history, 1, 'a', true)).toBe('b');
    expect(walk.step(history, 1, 'b', true)).toBe('c');
    expect(walk.step(history, 1, 'c', true)).toBe('');
    expect(walk.step(history, 1, '', false)).toBeNull();
  });

  test('a walk leaves drafts alone, and skips the query that is shown', () => {
    const walk = new Walk();
    expect(walk.step(['c', 'b'], -1, 'draft', true)).toBeNull();
    expect(walk.step(['c', 'b'], -1, 'c', false)).toBe('b');
    // Edited on the way: a draft.
    expect(walk.step(['c', 'b'], -1, 'b2', true)).toBeNull();
    expect(new Walk().step([], -1, '', false)).toBeNull();
  });
});

describe('saved queries', () => {
  test('are kept by name in order; one of the same name is replaced', () => {
    const list = withSaved([{ name: 'b', query: '1' }], { name: ' a ', query: '2' });
    expect(list).toEqual([{ name: 'a', query: '2' }, { name: 'b', query: '1' }]);
    expect(withSaved(list as [], { name: 'b', query: '3' })).toEqual([{ name: 'a', query: '2' }, { name: 'b', query: '3' }]);
    expect(withoutSaved(list as [], 'a')).toEqual([{ name: 'b', query: '1' }]);
  });

  test('have limits that say what to do', () => {
    const full = Array.from({ length: SAVED_MAX }, (_, at) => ({ name: `n${at}`, query: 'x' }));
    expect(withSaved(full, { name: 'more', query: 'x' })).toHaveProperty('error');
    expect(withSaved(full, { name: 'n7', query: 'y' })).toHaveLength(SAVED_MAX);
    expect(withSaved([], { name: ' ', query: 'x' })).toHaveProperty('error');
    expect(withSaved([], { name: 'x'.repeat(NAME_CHARS_MAX + 1), query: 'x' })).toHaveProperty('error');
  });

  test('are read as they are written; anything else is left out', () => {
    const saved = { version: 3, queries: [{ name: 'a', query: 'x | y' }] };
    expect(readSaved(JSON.parse(writeSaved(saved)))).toEqual(saved);
    for (const wrong of [null, 5, 'x', {}, { queries: 7 }, { queries: [null, { name: '' }, { name: 'a' }] }]) expect(readSaved(wrong)).toEqual({ version: 0, queries: [] });
  });
});
