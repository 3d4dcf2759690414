import { expect, test } from 'vitest';
import { fromLook, fromSearch, lookOf, PINNED_MAX, START, togglePinned, toSearch, type ViewState } from '../../src/lib/state/urlstate';

const states: Partial<ViewState>[] = [
  {},
  { query: '_type:="access" status:="500"' },
  { query: 'a&b=c #"ü\u2028\n+%' },
  { view: 'summary', type: 'access' },
  { view: 'summary', type: '' },
  { range: { kind: 'all' } },
  { range: { kind: 'relative', ms: 3_600_000 } },
  { range: { kind: 'relative', ms: 5_400_000 } },
  { range: { kind: 'absolute', startMs: 1_767_225_600_123, endMs: 1_767_225_610_000 } },
  { refreshS: 10, tail: true },
  { context: '17-4' },
  { context: '17-4', contextBy: 'trace_id' },
  { trace: 'trace_id=a=b' },
  { oldestFirst: true, columns: [] },
  { columns: [{ field: 'user.id', width: 80 }, { field: 'a,b', width: 120 }] },
  { pinned: ['status', 'a,b', 'k8s.pod&x'] },
  { view: 'queries', results: '17' },
  { view: 'programs', program: 'access-status', value: 'bytes', split: '' },
  { view: 'programs', program: 'a.b_c', part: 'rerun' },
  { view: 'programs', part: 'edit', example: 'access-status' },
];

test.each(states)('%j comes back from its link', (change) => {
  const state = { ...START, ...change };
  expect(fromSearch(toSearch(state))).toEqual(state);
});

test('the start page has a bare link', () => expect(toSearch(START)).toBe(''));

test.each(['?view=nonsense', '?range=soon', '?from=x&to=y', '?refresh=7', '?part=x', '?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z', '?%%%'])(
  'what is broken in %s falls back to the default',
  (search) => expect(fromSearch(search)).toEqual(START),
);

test('a look has columns, pinned fields, order and chart, and neither query nor range', () => {
  const state: ViewState = { ...START, query: 'x', range: { kind: 'all' }, columns: [{ field: 'path', width: 120 }], pinned: ['status'], oldestFirst: true };
  expect(lookOf(state)).toBe('?order=oldest&cols=path%3A120&pin=status');
  expect({ ...START, ...fromLook(lookOf(state)) }).toEqual({ ...state, query: '', range: START.range });
  expect(fromLook(undefined)).toEqual({});
});

test('a field is pinned and unpinned, and there are only so many', () => {
  expect(togglePinned(['a', 'b'], 'a')).toEqual(['b']);
  const many = Array.from({ length: PINNED_MAX }, (_, at) => `f${at}`);
  expect(togglePinned(many, 'new')).toEqual([...many.slice(0, -1), 'new']);
  expect(fromSearch(`?${[...many, 'x', 'f0', ''].map((field) => `pin=${field}`).join('&')}`).pinned).toEqual(many);
});
