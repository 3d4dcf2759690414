import { expect, test } from 'vitest';
import { statsOf } from '../../src/lib/query/stats';

test('comments are no part of a pipe', () => {
  const pipe = statsOf('error # | stats by (a) count()\n| stats by (host) count() n # | x');
  expect(pipe).toMatchObject({ before: 'error', behind: '', functionsText: 'count() n', count: 1 });
  expect(pipe?.keys.map((key) => key.name)).toEqual(['host']);
});
