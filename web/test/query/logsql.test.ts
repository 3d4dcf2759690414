import { describe, expect, test } from 'vitest';
import { addFilter, allOf, charOfByte, hasFilter, inFilter, isFilter, notFilter, quote, quoteField, removeFilter, splitQuery, toggleFilter } from '../../src/lib/query/logsql';

describe('quoting', () => {
  test.each([
    ['plain', '"plain"'],
    ['say "hi"', '"say \\"hi\\""'],
    ['C:\\temp', '"C:\\\\temp"'],
    ['two\nlines\t', '"two\\nlines\\t"'],
    ['bell\u0007', '"bell\\u0007"'],
    ['<b>ü</b>', '"<b>ü</b>"'],
    ['', '""'],
  ])('%j', (value, literal) => {
    expect(quote(value)).toBe(literal);
    expect(JSON.parse(literal)).toBe(value);
  });

  test('field names are quoted only when they must be', () => {
    expect(quoteField('app_name')).toBe('app_name');
    expect(quoteField('http.status')).toBe('http.status');
    expect(quoteField('two words')).toBe('"two words"');
    expect(quoteField('a:b')).toBe('"a:b"');
    expect(quoteField('not')).toBe('"not"');
    expect(quoteField('9lives')).toBe('"9lives"');
  });

  test('filters', () => {
    expect(isFilter('type', 'access')).toBe('type:="access"');
    expect(isFilter('level', '')).toBe('level:""');
    expect(inFilter('level', ['warn', 'warning'])).toBe('(level:="warn" or level:="warning")');
    expect(allOf('*', 'type:="access"', '')).toBe('type:="access"');
    expect(allOf('*')).toBe('*');
  });
});

describe('splitting', () => {
  test.each([
    ['error', 'error', ''],
    ['error | stats count()', 'error', '| stats count()'],
    ['"a | b" | limit 3', '"a | b"', '| limit 3'],
    ['(a or "x)|") | limit 1', '(a or "x)|")', '| limit 1'],
    ['"open | quote', '"open | quote', ''],
    ["'it\\'s |' x", "'it\\'s |' x", ''],
    ['`\\` | limit 1', '`\\`', '| limit 1'],
    ['', '', ''],
  ])('%j', (query, filter, pipes) => expect(splitQuery(query)).toEqual({ filter, pipes }));
});

describe('adding and removing filters', () => {
  const level = 'level:="error"';
  test.each([
    ['', level],
    ['*', level],
    ['timeout', `timeout ${level}`],
    ['a or b', `(a or b) ${level}`],
    ['(a or b)', `(a or b) ${level}`],
    ['timeout | stats count()', `timeout ${level} | stats count()`],
    [` ${level} x`, `${level} x`],
    [`NOT ${level} x`, `x ${level}`],
    [`not ${level}`, level],
    ['f:="a or b"', `f:="a or b" ${level}`],
  ])('%j', (query, expected) => expect(addFilter(query, level)).toBe(expected));

  test('a negation replaces its opposite', () => {
    expect(addFilter(`x ${level}`, notFilter(level))).toBe(`x NOT ${level}`);
  });

  test('toggling twice changes nothing', () => {
    for (const query of ['x', 'x y:="z"', 'x | limit 3']) {
      const once = toggleFilter(query, level);
      expect(hasFilter(once, level)).toBe(true);
      expect(toggleFilter(once, level)).toBe(query);
    }
    expect(removeFilter(level, level)).toBe('*');
  });
});

test('a comment does not swallow what is added', () => {
  expect(addFilter('error # why', 'status:="500"')).toBe('error status:="500"');
  expect(splitQuery('error # | not a pipe\n| limit 1')).toEqual({ filter: 'error', pipes: '| limit 1' });
  expect(splitQuery('"a # b" c#d')).toEqual({ filter: '"a # b" c#d', pipes: '' });
});

test('bytes become characters', () => {
  expect(charOfByte('abc', 2)).toBe(2);
  expect(charOfByte('äbc', 3)).toBe(2);
  expect(charOfByte('€x', 3)).toBe(1);
  expect(charOfByte('😀x', 4)).toBe(2);
  expect(charOfByte('abc', 99)).toBe(3);
});
