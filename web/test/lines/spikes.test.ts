import { describe, expect, test } from 'vitest';
import { rank, spikesOf, worstSpikes } from '../../src/lib/lines/spikes';

describe('spikes', () => {
  const quiet = new Array<number>(60).fill(1);

  test('a burst is found with its whole run', () => {
    const values = quiet.map((value, i) => (i >= 40 && i <= 44 && i !== 42 ? 50 : value));
    expect(spikesOf('access', 'status', '500', values, values)).toEqual([
      { type: 'access', field: 'status', value: '500', from: 40, to: 44, count: 201, usual: 1, peak: 50 },
    ]);
  });

  test.each([[quiet], [quiet.map(() => 1000)], [quiet.map((_, i) => i % 5)], [[]]])('nothing stands out %#', (values) => {
    expect(spikesOf('t', 'level', 'error', values, values.map(() => 9))).toEqual([]);
  });

  test('the median is over the time with lines', () => {
    const since = quiet.map((_, i) => (i < 40 ? 0 : 8));
    expect(spikesOf('t', 'level', 'error', since, since)).toEqual([]);
  });

  test('status codes are preferred to the level derived from them', () => {
    const burst = quiet.map((value, i) => (i === 9 ? 80 : value));
    const found = worstSpikes({ type: 'access', lines: burst, series: { status: { '500': burst, '200': burst }, level: { error: burst } } });
    expect(found.map((spike) => spike.value)).toEqual(['500']);
  });

  test('simultaneous spikes are adjacent, the newest first, and only the worst are kept', () => {
    const spike = (from: number, to: number, count: number) => ({ type: 't', field: 'level', value: 'error', from, to, usual: 0, peak: 9, count });
    const found = rank([spike(1, 4, 30), spike(20, 22, 10), spike(3, 5, 50), spike(21, 24, 20)]);
    expect(found.map((one) => one.count)).toEqual([20, 10, 50, 30]);
    const many = rank(Array.from({ length: 9 }, (_, i) => spike(i * 10, i * 10, 100 - i)));
    expect(many.map((one) => one.count)).toEqual([95, 96, 97, 98, 99, 100]);
  });
});
