import { expect, test } from 'vitest';
import { bucketsOf } from '../../src/lib/base/steps';
import { levelSeriesOfHits } from '../../src/lib/lines/buckets';

test('aliases are one series that remembers its values, worst first', () => {
  const at = '2026-01-31T12:00:00Z';
  const buckets = bucketsOf({ startMs: Date.parse(at), endMs: Date.parse(at) + 2000 }, 1000);
  const group = (level: string, value: number) => ({ fields: { _level: level }, timestamps: [at], values: [value], total: value });
  const levels = levelSeriesOfHits([group('info', 7), group('warn', 2), group('warning', 3), { ...group('', 1), fields: {} }], buckets);
  expect(levels.map((one) => [one.key, one.values, one.rawValues])).toEqual([
    ['warning', [5, 0], ['warn', 'warning']],
    ['info', [7, 0], ['info']],
    ['none', [1, 0], ['']],
  ]);
});
