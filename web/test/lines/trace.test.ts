import { expect, test } from 'vitest';
import { formatTook, LANES_MAX, traceFields, traceLines, traceOf } from '../../src/lib/lines/trace';

const at = (ms: number): string => new Date(Date.UTC(2026, 0, 31) + ms).toISOString();

test('what identifies a trace is found, the widest first', () => {
  expect(traceFields({ _time: '', session_id: 's', 'http.request_id': 'r', trace_id: 't', span_id: 'x', user_id: 'u' })).toEqual(['trace_id', 'http.request_id', 'session_id']);
  expect(traceFields({ _time: '', trace_id: '00000000000000000000000000000000', traceId: '', requestId: '-' })).toEqual([]);
  expect(traceFields({ _time: '', traceID: 'a', 'x-correlation-id': 'b' })).toEqual(['traceID', 'x-correlation-id']);
});

test('the address names a field and a value', () => {
  expect(traceOf('trace_id=a=b')).toEqual({ field: 'trace_id', value: 'a=b' });
  expect([traceOf(''), traceOf('=x'), traceOf('x='), traceOf('x')]).toEqual([null, null, null, null]);
});

test('lines are on the lane of their service, in the order of time, with pauses', () => {
  const { lanes, lines, tookNs } = traceLines([
    { _time: at(1000), app_name: 'shop', _msg: 'answer' },
    { _time: at(0), app_name: 'shop', _msg: 'request' },
    { _time: at(40), 'service.name': 'db', _msg: 'query' },
    { _time: at(990), 'service.name': 'db', _msg: 'rows' },
    { _time: 'never' },
  ]);
  expect(lanes).toEqual(['shop', 'db']);
  expect(lines.map(({ row, lane, at: place }) => [row['_msg'], lane, place])).toEqual([['request', 0, 0], ['query', 1, 0.04], ['rows', 1, 0.99], ['answer', 0, 1]]);
  expect(lines.map(({ gapNs }) => gapNs)).toEqual([null, null, 950_000_000n, null]);
  expect(formatTook(tookNs)).toBe('1 s');
});

test('one line, none, and more services than there are lanes', () => {
  expect(traceLines([])).toEqual({ lanes: [], lines: [], tookNs: 0n });
  expect(traceLines([{ _time: at(5) }]).lines[0]).toMatchObject({ lane: 0, at: 0, gapNs: null });
  const many = traceLines(Array.from({ length: 20 }, (_, n) => ({ _time: at(n), app: `a${n}` })));
  expect(many.lanes).toHaveLength(LANES_MAX);
  expect(many.lanes[LANES_MAX - 1]).toBe('others');
  expect(new Set(many.lines.slice(LANES_MAX - 1).map(({ lane }) => lane))).toEqual(new Set([LANES_MAX - 1]));
});

test.each([[0n, '0 µs'], [40_000n, '40 µs'], [1_234_567n, '1.23 ms'], [2_500_000_000n, '2.5 s'], [90_000_000_000n, '1.5 min']])('%s ns is %s', (ns, text) => expect(formatTook(ns)).toBe(text));
