import { describe, expect, it } from 'vitest';
import {
  commonOfDifference,
  compareWithBefore,
  compareWithOthers,
  comparisonOf,
  differencesOf,
  linesOfDifference,
} from '../../src/lib/lines/differences';

const MINUTE = 60_000;
const T = Date.parse('2026-11-02T10:00:00Z');
const SPAN = { startMs: T, endMs: T + 5 * MINUTE };

const PATTERN = {
  kind: 'pattern', field: '_msg', value: 'could not connect <*>', selected: '80', expected: '0', others: '0', score: '20',
  first: '2026-11-02T10:01:00.5Z', with: '{"level":"error","pool":"db1:5432"}', example: 'could not connect 1',
};
const GONE = { kind: 'value', field: 'host', value: 'web3', selected: '0', expected: '100', others: '400', score: '-15', last: '2026-11-02T09:59:59Z' };
const NUMBER = { kind: 'number', field: 'took_ms', selected: '15', expected: '3', others: '12', score: '4', quantile: '0.99', from: '68.6', to: '548' };

describe('comparing', () => {
  it('compares a range with the time before it', () => {
    const { query, span } = compareWithBefore('app:=shop | stats count() n', SPAN, { startMs: 0, endMs: T });
    expect(query).toBe('app:=shop | differences where (_time:[2026-11-02T10:00:00.000Z, 2026-11-02T10:05:00.000Z)) scale 0.25');
    expect(span).toEqual({ startMs: T - 20 * MINUTE, endMs: T + 5 * MINUTE });
    expect(comparisonOf(query)).toEqual({
      before: 'app:=shop', where: '_time:[2026-11-02T10:00:00.000Z, 2026-11-02T10:05:00.000Z)', selected: SPAN,
    });
  });

  it('compares with what there is', () => {
    const some = compareWithBefore('', SPAN, { startMs: T - 10 * MINUTE, endMs: T });
    expect(some.span.startMs).toBe(T - 10 * MINUTE);
    expect(some.query).toContain('scale 0.5');
    expect(compareWithBefore('', SPAN, { startMs: SPAN.endMs, endMs: SPAN.endMs + 1 })).toEqual(compareWithBefore('', SPAN, null));
    // Nothing before: the last quarter of the range with the rest of it.
    const none = compareWithBefore('', SPAN, { startMs: T + MINUTE, endMs: T + 5 * MINUTE });
    expect(none.span.startMs).toBe(T + MINUTE);
    expect(none.query).toBe('* | differences where (_time:[2026-11-02T10:04:00.000Z, 2026-11-02T10:05:00.000Z)) scale 0.333333');
  });

  it('begins with 1970 at the earliest where it is not known what is stored', () => {
    const all = compareWithBefore('', { startMs: 0, endMs: 4 * T }, null);
    expect(all.span).toEqual({ startMs: 0, endMs: 4 * T });
    expect(comparisonOf(all.query)?.selected).toEqual({ startMs: 3 * T, endMs: 4 * T });
  });

  it('compares lines with others, and knows no other query', () => {
    const query = compareWithOthers('a | sort by (b)', 'host:=web3');
    expect(query).toBe('a | differences where (host:=web3)');
    expect(comparisonOf(query)).toEqual({ before: 'a', where: 'host:=web3', selected: null });
    expect(comparisonOf('a | differences 5 where (x:(1 or 2)) | limit 1')).toBeNull();
    expect(comparisonOf('a | stats count() n')).toBeNull();
    expect(comparisonOf('"a | differences where (b)"')).toBeNull();
  });
});

describe('differences', () => {
  const comparison = { before: 'app:=shop', where: '_time:[…)', selected: SPAN };
  const whole = { startMs: T - 20 * MINUTE, endMs: SPAN.endMs };

  it('reads the rows of the server', () => {
    const [pattern, gone, number] = differencesOf([PATTERN, GONE, NUMBER, { kind: 'other' }]);
    expect(pattern).toMatchObject({ turn: 'new', rises: true, firstMs: T + MINUTE + 500, with: [['level', 'error'], ['pool', 'db1:5432']] });
    expect(gone).toMatchObject({ turn: 'gone', rises: false });
    expect(number?.shift).toEqual({ percentile: 99, from: 68.6, to: 548, written: '68.6' });
  });

  it('leads to the lines of a difference', () => {
    const [pattern, gone, number] = differencesOf([PATTERN, GONE, NUMBER]);
    const lines = (one: typeof pattern) => linesOfDifference(comparison, one as NonNullable<typeof one>, whole);
    expect(lines(pattern)).toEqual({ query: 'app:=shop pattern_match_full("could not connect <*>")', span: SPAN });
    expect(lines(gone)).toEqual({ query: 'app:=shop host:="web3"', span: { startMs: whole.startMs, endMs: T } });
    expect(lines(number)).toEqual({ query: 'app:=shop took_ms:>68.6', span: SPAN });
    const groups = { before: '*', where: 'a:=b', selected: null };
    expect(linesOfDifference(groups, pattern as NonNullable<typeof pattern>, whole)).toEqual({
      query: 'pattern_match_full("could not connect <*>") (a:=b)', span: whole,
    });
  });

  it('leads to the lines of a pattern that was never seen before', () => {
    const [first] = differencesOf([{ ...PATTERN, kind: 'first' }]);
    expect(first).toMatchObject({ kind: 'first', turn: 'new' });
    expect(linesOfDifference(comparison, first as NonNullable<typeof first>, whole).query).toBe('app:=shop pattern_match_full("could not connect <*>")');
  });

  it('does not name a filter twice', () => {
    const value = differencesOf([{ ...GONE, field: 'host', value: 'web3' }])[0] as NonNullable<ReturnType<typeof differencesOf>[0]>;
    const twice = { before: 'host:="web3" error', where: 'host:="web3"', selected: null };
    expect(linesOfDifference(twice, { ...value, turn: null }, whole).query).toBe('host:="web3" error');
    const others = { before: '*', where: 'host:="web3"', selected: null };
    expect(linesOfDifference(others, { ...value, turn: null }, whole).query).toBe('host:="web3"');
  });

  it('asks what the lines of a difference have in common', () => {
    const [number] = differencesOf([NUMBER]);
    expect(commonOfDifference(comparison, number as NonNullable<typeof number>, whole)).toEqual({
      query: 'app:=shop took_ms:* | differences where (took_ms:>68.6)', span: SPAN,
    });
    // Lines of other programs, which lack the field, differ in all ways.
    const [, gone] = differencesOf([NUMBER, GONE]);
    expect(commonOfDifference(comparison, gone as NonNullable<typeof gone>, whole).query).toBe('app:=shop host:* | differences where (host:="web3")');
    expect(compareWithOthers('error', 'status:="500"', 'status')).toBe('error status:* | differences where (status:="500")');
  });
});
