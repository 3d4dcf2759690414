import { describe, expect, test } from 'vitest';
import { beforePatterns, linesOfPattern, togglePatterns } from '../../src/lib/query/patterns';

describe('patterns', () => {
  test('the query before the pipe', () => {
    expect(beforePatterns('error | patterns 200')).toBe('error');
    expect(beforePatterns('error | fields _msg | patterns by (hostname)')).toBe('error | fields _msg');
    for (const other of ['error', 'patterns', 'error | patterns 5 of user', 'error | patterns | limit 5', '"x | patterns"']) expect(beforePatterns(other)).toBeNull();
  });

  test('patterns of the lines, and the lines again', () => {
    expect(togglePatterns('error')).toBe('error | patterns 200');
    expect(togglePatterns('')).toBe('* | patterns 200');
    expect(togglePatterns('error | stats count()')).toBe('error | patterns 200');
    expect(togglePatterns('a or b | patterns 3')).toBe('a or b');
  });

  test('the lines of a pattern', () => {
    expect(linesOfPattern('error', 'took <*> "ms"')).toBe('error pattern_match_full("took <*> \\"ms\\"")');
    expect(linesOfPattern('*', 'a')).toBe('pattern_match_full("a")');
    expect(linesOfPattern('a or b', 'c')).toBe('(a or b) pattern_match_full("c")');
    expect(linesOfPattern('a | extract "x=<y>"', 'c')).toBe('a | extract "x=<y>" | filter pattern_match_full("c")');
  });
});
