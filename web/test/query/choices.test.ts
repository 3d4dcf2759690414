import { describe, expect, test } from 'vitest';
import { shownFacets } from '../../src/lib/lines/facets';
import { addFilter, chosenValues, closed, isOrdered, keyColumns, toggleExcluded, toggleValue, toggleValues, withoutChoice } from '../../src/lib/query/logsql';

describe('values that a query chooses', () => {
  test.each([
    ['status:="500"', { status: [['500'], []] }],
    ['status:=500', { status: [['500'], []] }],
    ['type:="access" status:="500" timeout', { type: [['access'], []], status: [['500'], []] }],
    ['(status:="500" or status:="502")', { status: [['500', '502'], []] }],
    ['status:in(500, "502",\'a,b\')', { status: [['500', '502', 'a,b'], []] }],
    ['status:(="500" or =502)', { status: [['500', '502'], []] }],
    ['NOT status:="200" -status:="301" !status:="302"', { status: [[], ['200', '301', '302']] }],
    ['NOT (status:="200" or status:="201")', { status: [[], ['200', '201']] }],
    ['NOT NOT status:="200"', { status: [['200'], []] }],
    ['level:""', { level: [[''], []] }],
    ['"my field":="a \\"b\\" | c"', { 'my field': [['a "b" | c'], []] }],
    ['status:="500" | stats by (status) count()', { status: [['500'], []] }],
    // Words, patterns, ranges, prefixes and subqueries choose no value.
    ['type:access status:>=500 _msg:~"a" host:="we"* user:in(_time:1d | fields user) path:in()', {}],
    ['(status:="500" or level:="error")', {}],
    ['status:="500" or level:="error"', {}],
    ['*', {}],
  ])('%s', (query, expected) => {
    const found = Object.fromEntries([...chosenValues(query)].map(([field, { included, excluded }]) => [field, [included, excluded]]));
    expect(found).toEqual(expected);
  });

  test.each([
    // A second value is added next to the first, at its position, and both can be removed.
    ['', 'status', '500', 'status:="500"'],
    ['*', 'status', '500', 'status:="500"'],
    ['status:="500"', 'status', '500', '*'],
    ['a status:="500" b', 'status', '502', 'a (status:="500" or status:="502") b'],
    ['a (status:="500" or status:="502") b', 'status', '500', 'a status:="502" b'],
    ['status:in(500,502) | limit 5', 'status', '404', '(status:="500" or status:="502" or status:="404") | limit 5'],
    ['NOT status:="200"', 'status', '200', 'status:="200"'],
    ['a or b', 'status', '500', '(a or b) status:="500"'],
    ['status:="a" or b', 'status', 'a', '(status:="a" or b) status:="a"'],
    ['status:>400', 'status', '500', 'status:>400 status:="500"'],
  ])('%s, %s %s chosen', (query, field, value, expected) => expect(toggleValue(query, field, value)).toBe(expected));

  test.each([
    ['', 'status', '200', 'NOT status:="200"'],
    ['NOT status:="200"', 'status', '200', '*'],
    ['NOT status:="200" x', 'status', '301', 'NOT status:="200" NOT status:="301" x'],
    ['(status:="500" or status:="502")', 'status', '502', 'status:="500" NOT status:="502"'],
  ])('%s, %s %s left out', (query, field, value, expected) => expect(toggleExcluded(query, field, value)).toBe(expected));

  test('several values at once, and none of a field', () => {
    expect(toggleValues('x', 'level', ['warn', 'warning'])).toBe('x (level:="warn" or level:="warning")');
    expect(toggleValues('x (level:="warn" or level:="warning")', 'level', ['warn', 'warning'])).toBe('x');
    expect(toggleValues('level:="error"', 'level', ['warn', 'warning'])).toBe('(level:="error" or level:="warn" or level:="warning")');
    expect(withoutChoice('a status:="500" NOT status:="1" status:>4', 'status')).toBe('a status:>4');
  });

  test('a choice is parsed back, whatever the value', () => {
    for (const value of ['', 'a', '500', 'say "hi"', 'back\\slash', '`tick`', 'a,b|c (d) [e]', 'NOT x', 'or', '*', 'ü\n', "it's"]) {
      const query = toggleValue('before', 'my field', value);
      expect(chosenValues(query).get('my field')?.included).toEqual([value]);
      expect(toggleValue(query, 'my field', value)).toBe('before');
      const out = toggleExcluded('before', 'my field', value);
      expect(chosenValues(out).get('my field')?.excluded).toEqual([value]);
      expect(toggleExcluded(out, 'my field', value)).toBe('before');
    }
  });
});

describe('a query that is still being typed', () => {
  test.each([
    ['error', 'error'],
    ['"Failed pass', '"Failed pass"'],
    ['"', '""'],
    ['"a\\', '"a"'],
    ['"a\\"', '"a\\""'],
    ["'a (b", "'a (b'"],
    ['`a\\', '`a\\`'],
    ['(a or (b', '(a or (b))'],
    ['status:in("a', 'status:in("a")'],
    ['_time:[1, {', '_time:[1, {}]'],
    ['a)', 'a)'],
    ['"a" "b', '"a" "b"'],
  ])('%s', (text, expected) => {
    expect(closed(text)).toBe(expected);
    expect(addFilter(closed(text), 'x:="1"').endsWith('x:="1"')).toBe(true);
  });
});

describe('tables of pipes', () => {
  test.each([
    ['* | stats by (host, _time:5m) count() n', ['host', '_time']],
    ['* | stats by ("my field") count() n | sort by (n)', ['my field', 'n']],
    ['by (x)', []],
  ])('%s', (query, keys) => expect([...keyColumns(query)]).toEqual(keys));

  test.each([
    ['* | stats by (a) count()', false],
    ['* | stats by (a) count() | sort by (a)', true],
    ['sort | stats count() sort', false],
    ['* | top 5 by (a)', true],
    ['* | patterns 200', true],
    ['* | differences where (a)', true],
    ['* | fields a', false],
  ])('%s ordered: %s', (query, expected) => expect(isOrdered(query)).toBe(expected));
});

describe('the panel of fields', () => {
  const facet = (field_name: string, ...values: [string, number][]) => ({ field_name, values: values.map(([field_value, hits]) => ({ field_value, hits })) });
  const found = [facet('app', ['nginx', 7]), facet('status', ['500', 7]), facet('path', ['/a', 5]), facet('_type', ['access', 7]), facet('_time', ['x', 7])];

  test('a chosen value stays, with the other values of its field; fields with one value are constant', () => {
    const chosen = chosenValues('status:="500" NOT path:="/b" user:="root"');
    const others = new Map([
      ['status', [{ value: '200', hits: 90 }, { value: '500', hits: 7 }]],
      ['path', [{ value: '/b', hits: 30 }, { value: '/a', hits: 5 }]],
    ]);
    expect(shownFacets(found, 7, chosen, others).map(({ field, values, constant }) => [field, values.map(({ value, hits }) => `${value} ${hits}`), constant])).toEqual([
      ['status', ['200 90', '500 7'], false],
      ['path', ['/b 30', '/a 5'], false],
      ['user', ['root null'], false],
      ['_type', ['access 7'], true],
      ['app', ['nginx 7'], true],
    ]);
  });

  test('one value that some lines lack is not constant', () => {
    expect(shownFacets([facet('path', ['/a', 5])], 7, new Map(), new Map())[0]?.constant).toBe(false);
  });
});
