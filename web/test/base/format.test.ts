import { expect, test } from 'vitest';
import { formatBytes, formatCount, formatMillis, formatOf, formatPercent, formatShort } from '../../src/lib/base/format';

test('numbers', () => {
  expect(formatCount(1234567)).toBe('1,234,567');
  expect(formatShort(1234)).toBe('1.23k');
  expect(formatBytes(1536)).toBe('1.5 KiB');
  expect(formatMillis(83)).toBe('83 ms');
  expect(formatMillis(90_000)).toBe('1m 30s');
  expect(formatPercent(1, 1000)).toBe('<1%');
  expect(formatPercent(1, 0)).toBe('0%');
  expect([994, 996, 1000, 1004].map((part) => formatPercent(part, 1000))).toEqual(['99%', '>99%', '100%', '100%']);
});

test.each([
  [0, '0 queries', '0 lines'],
  [1, '1 query', '1 line'],
  [2000, '2,000 queries', '2,000 lines'],
])('%i with its noun', (value, queries, lines) => {
  expect(formatOf(value, 'query', 'queries')).toBe(queries);
  expect(formatOf(value, 'line')).toBe(lines);
});
