import { expect, test } from 'vitest';
import { planLines } from '../../src/lib/api/plan';

test('a plan is sentences; a query has several lines, and shares are shown elsewhere', () => {
  const text = 'query     error\n| stats count() n\ntime      all\npipe 1    stats count() n: collecting\nshare     store-1: 3 segments\nmissing   nobody\nrun       1 rows\n';
  expect(planLines(text)).toEqual([
    { about: 'query', text: 'error\n| stats count() n' },
    { about: 'time', text: 'all' },
    { about: 'pipe 1', text: 'stats count() n: collecting' },
  ]);
});
