import { describe, expect, test } from 'vitest';
import { levelOf, statusColor } from '../../src/lib/base/levels';

describe('levels', () => {
  test.each([
    ['error', 'error'],
    ['ERR', 'error'],
    ['warn', 'warning'],
    ['Fatal', 'critical'],
    ['', 'none'],
    [undefined, 'none'],
    ['whatever', 'none'],
    ['constructor', 'none'],
  ])('%s is %s', (value, level) => expect(levelOf(value)).toBe(level));

  test('codes of a class differ in colour', () => {
    const codes = ['500', '502', '503'];
    expect(new Set(codes.map((code) => statusColor(code, codes))).size).toBe(3);
  });
});
