import { expect, test } from 'vitest';
import { sharedFields } from '../../src/lib/lines/around';
import { compareRows } from '../../src/lib/lines/compare';
import { jsonOf, membersOf, NumberText, shortOf } from '../../src/lib/base/jsonText';

test.each([
  ['{"a":1}', ['a 1']],
  ['<134>1 2026-01-01 web1 app - - - {"a":{"b":[1,2]},"c":"x"}', ['a {1}', 'c "x"']],
  ['[1] [x] {"a":null,"b":true}', ['a null', 'b true']],
  ['{"__proto__":1,"a":[]}', ['__proto__ 1', 'a [0]']],
  ['{"id":12345678901234567890}', ['id 12345678901234567890']],
])('JSON in %s', (line, members) => {
  expect(membersOf(jsonOf(line)!)!.map(([name, value]) => `${name} ${shortOf(value)}`)).toEqual(members);
});

test.each(['', 'plain', '{}', '{"a":1', '"text"', '17', '{{{{{{{{{{"a":1}', '[17] connection closed'])('no JSON in %s', (line) => expect(jsonOf(line)).toBeNull());

test('a number is no branch', () => expect(membersOf(new NumberText('17'))).toBeNull());

test('lines are compared field by field, and what differs is cut out', () => {
  const compared = compareRows({ _msg: 'took 17 ms', path: '/a', only: 'x' }, { _msg: 'took 950 ms', path: '/a' });
  expect(compared).toEqual([
    { field: '_msg', left: ['took ', '17', ' ms'], right: ['took ', '950', ' ms'], isSame: false },
    { field: 'only', left: ['', 'x', ''], right: null, isSame: false },
    { field: 'path', left: ['/a', '', ''], right: ['/a', '', ''], isSame: true },
  ]);
  // Words are not cut, and the parts never overlap.
  expect(compareRows({ a: 'x 123 y' }, { a: 'x 143 y' })[0]).toMatchObject({ left: ['x ', '123', ' y'], right: ['x ', '143', ' y'] });
  expect(compareRows({ a: '---' }, { a: '-----' })[0]).toMatchObject({ left: ['---', '', ''], right: ['---', '--', ''] });
});

test('the host and identifiers are offered first', () => {
  expect(sharedFields({ _time: 't', user: 'a', trace_id: '1', hostname: 'h', empty: '', long: 'x'.repeat(999) })).toEqual(['hostname', 'trace_id', 'user']);
});
