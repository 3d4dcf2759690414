import { expect, test } from 'vitest';
import { listed, LISTED_MAX, numbersOf, numbersQuery, numericFields, shownFacets } from '../../src/lib/lines/facets';
import { formatNumber } from '../../src/lib/base/format';
import { toggleBound } from '../../src/lib/query/logsql';

const facet = (field_name: string, ...values: [string, number][]) => ({ field_name, values: values.map(([field_value, hits]) => ({ field_value, hits })) });
const counted = (...fields: [string, number][]) => fields.map(([value, hits]) => ({ value, hits }));
const numbers = { min: '1', median: '2', p99: '3', max: '4' };

test('what tells lines apart comes first, what all share and what seldom tells anything last', () => {
  const found = [
    facet('bytes', ['17', 3], ['18', 2]),
    facet('color', ['red', 60], ['blue', 40]),
    facet('duration_ms', ['1.5', 2], ['1.6', 2]),
    facet('pool', ['db1', 100]),
    facet('order', ['a', 1], ['b', 1], ['c', 1]),
    facet('status', ['200', 90], ['500', 10]),
    facet('proc_id', ['1', 50], ['2', 50]),
    facet('_msg', ['done', 100]),
    facet('few', ['x', 1], ['y', 1]),
  ];
  const fields = counted(['bytes', 100], ['color', 100], ['duration_ms', 100], ['pool', 100], ['order', 100], ['status', 100], ['proc_id', 100], ['trace_id', 100], ['latency', 100], ['_time', 100], ['few', 2]);
  const shown = shownFacets(found, 100, new Map(), new Map(), { fields, numbers: new Map([['duration_ms', numbers], ['latency', numbers], ['bytes', numbers]]) });
  expect(shown.filter(({ noise, constant }) => !noise && !constant).map(({ field }) => field)).toEqual(['status', 'duration_ms', 'latency', 'color', 'few']);
  expect(shown.filter(({ constant }) => constant).map(({ field }) => field)).toEqual(['pool', '_msg']);
  // `trace_id` has too many values for a facet of the server, and is there all the same.
  expect(shown.filter(({ noise }) => noise).map(({ field }) => field)).toEqual(['bytes', 'order', 'proc_id', 'trace_id']);
});

test('few lines have no noise but what is known as such', () => {
  const shown = shownFacets([facet('order', ['a', 1], ['b', 1])], 10, new Map(), new Map(), { fields: counted(['order', 10]), numbers: new Map() });
  expect(shown[0]?.noise).toBe(false);
});

test('a chosen value makes its field worth a look', () => {
  const shown = shownFacets([], 10, new Map([['proc_id', { included: ['17'], excluded: [] }]]), new Map(), { fields: counted(['proc_id', 10]), numbers: new Map() });
  expect(shown).toMatchObject([{ field: 'proc_id', noise: false, values: [{ value: '17', hits: null }] }]);
});

test('of very many fields the first are listed, and the others counted', () => {
  const fields = counted(...Array.from({ length: LISTED_MAX + 50 }, (_, at): [string, number] => [`user_${at}`, 1]), ['status', 9]);
  const shown = shownFacets([facet('status', ['200', 8], ['500', 1])], 9, new Map(), new Map(), { fields, numbers: new Map() });
  expect(shown).toHaveLength(LISTED_MAX + 51);
  const { first, more } = listed(shown);
  expect(first[0]?.field).toBe('status');
  expect([first.length, more]).toEqual([LISTED_MAX, 51]);
  expect(listed(shown.slice(0, 3))).toEqual({ first: shown.slice(0, 3), more: 0 });
});

test('fields that measure something', () => {
  const rows = Array.from({ length: 20 }, (_, i) => ({
    _time: String(i), duration_ms: `${i}.5`, status: String(200 + i), user_id: String(i), bytes: String(i * 100), pid: String(i), mixed: i === 3 ? '-' : String(i), retries: String(i % 3), path: '/',
  }));
  expect(numericFields(rows)).toEqual(['duration_ms', 'bytes']);
  expect(numericFields([])).toEqual([]);
});

test('numbers are asked for in one row', () => {
  expect(numbersQuery('a or b', ['x y', 'd'])).toBe(
    'a or b | stats min("x y") min0, median("x y") median0, quantile(0.99, "x y") p990, max("x y") max0, min(d) min1, median(d) median1, quantile(0.99, d) p991, max(d) max1',
  );
  const row = { min0: '1', median0: '2', p990: '3', max0: '4', min1: '1', median1: '', p991: 'NaN', max1: 'x' };
  expect(numbersOf(row, ['x y', 'd'])).toEqual(new Map([['x y', numbers]]));
  expect(numbersOf(undefined, ['d'])).toEqual(new Map());
});

test.each([
  ['*', 'd:>=5'],
  ['a', 'a d:>=5'],
  ['d:>=3 a d:<=9', 'a d:<=9 d:>=5'],
  ['a d:>=5', 'a'],
  ['a or b', '(a or b) d:>=5'],
  ['a | stats count()', 'a d:>=5 | stats count()'],
])('a bound in %s', (query, expected) => expect(toggleBound(query, 'd', '>=', '5')).toBe(expected));

test.each([[0.0034, '0.0034'], [0, '0'], [20.25, '20.3'], [905.8, '906'], [1234567, '1.23M'], [-0.5, '-0.5']])('%d is %s', (value, text) => expect(formatNumber(value)).toBe(text));

test('what went wrong, then what most lines have, comes before rare fields', () => {
  const lines: [string, number][] = [['field_000', 70], ['team', 1000], ['zone', 500], ['error', 70], ['service.name', 1000]];
  const facets = lines.map(([field, hits]) => facet(field, ['a', hits / 2], ['b', hits / 4]));
  const fields = counted(...lines);
  const shown = shownFacets(facets, 1000, new Map(), new Map(), { fields, numbers: new Map() }).filter(({ noise }) => !noise);
  const order = shown.map(({ field }) => field);
  expect(order).toEqual(['service.name', 'error', 'team', 'zone', 'field_000']);
});
