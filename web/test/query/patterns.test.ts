import { describe, expect, test } from 'vitest';
import { beforePatterns, ignorePattern, linesOfPattern, patternsOf, patternsQuery, placesIn, placesOf, placesQuery, togglePatterns } from '../../src/lib/query/patterns';

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

describe('patterns of a field', () => {
  test('are found like those of messages', () => {
    expect(patternsOf('error | patterns 200')).toEqual({ before: 'error', field: '_msg' });
    expect(patternsOf('error | patterns 5 of exc')).toEqual({ before: 'error', field: 'exc' });
    expect(patternsOf('error | patterns of "k8s.pod-name"')).toEqual({ before: 'error', field: 'k8s.pod-name' });
    for (const other of ['error', 'error | patterns by (host)', 'error | patterns 5 of exc by (host)', 'error | patterns | limit 5']) expect(patternsOf(other)).toBeNull();
    expect(patternsQuery('error', '_msg')).toBe('error | patterns 200');
    expect(patternsQuery('error', 'k8s.pod-name')).toBe('error | patterns 200 of "k8s.pod-name"');
    expect(togglePatterns('error | patterns 200 of exc')).toBe('error');
    expect(linesOfPattern('error', 'a <*>', [], 'exc')).toBe('error exc:pattern_match_full("a <*>")');
    expect(ignorePattern('*', 'a', '_msg')).toBe('NOT pattern_match_full("a") | patterns 200');
  });

  test('lead to exactly the lines that were counted', () => {
    const all = ['request <*> done', '<*> done', 'job cleanup done', 'other'];
    expect(linesOfPattern('*', '<*> done', all)).toBe('pattern_match_full("<*> done") NOT pattern_match_full("request <*> done") NOT pattern_match_full("job cleanup done")');
    expect(linesOfPattern('*', 'other', all)).toBe('pattern_match_full("other")');
  });
});

describe('the places of a pattern', () => {
  test('are read from a text', () => {
    expect(placesIn('a <*> b <*>', 'a 1 b 2 3')).toEqual(['1', '2 3']);
    expect(placesIn('<*> b', 'b')).toBeNull();
    expect(placesIn('a', 'a')).toEqual([]);
    expect(placesIn('a', 'ab')).toBeNull();
    expect(placesIn('a <*> c', 'a c')).toBeNull();
  });

  test('are numbers with a unit, or words', () => {
    expect(placesOf('took <*> ms', 'took 5 ms')).toEqual([{ name: 'place1_ms', isNumber: true, example: '5' }]);
    expect(placesOf('<*> "A IN x." NOERROR <*>', '10.0.0.1 "A IN x." NOERROR 155us')).toEqual([
      { name: 'place1', isNumber: false, example: '10.0.0.1' }, { name: 'place2_ns', isNumber: true, example: '155us' },
    ]);
    // White space counts once, and only the first line.
    expect(placesOf('LOG: <*> done', 'LOG:  5 done\n  at x')).toMatchObject([{ example: '5' }]);
    expect(placesOf('x <*>', 'y 1')).toEqual([]);
  });

  test('are extracted into fields', () => {
    const places = placesOf('took (<*>) <*> ms', 'took (a) 5 ms');
    expect(placesQuery('app:=x', 'took (<*>) <*> ms', places)).toBe('app:=x | extract_regexp "^\\\\s*took\\\\s+\\\\((?P<place1>.*?)\\\\)\\\\s+(?P<place2_ms>.*?)\\\\s+ms\\\\s*(?:\\\\n|$)" from _msg');
  });
});
