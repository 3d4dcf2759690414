import { describe, expect, it } from 'vitest';
import type { Row } from '../../src/lib/base/jsonl';
import { differencesOf, type Comparison } from '../../src/lib/lines/differences';
import { causesOf, causesQuery, commonOfStory, linesIn, overlapOf, overlapQuery, ownLines, storiesOf, toExplain, whoOf, writersOf } from '../../src/lib/lines/stories';
import { amountOf, sentenceOf, wordOf } from '../../src/lib/lines/storyWords';

const T = Date.parse('2026-11-02T10:00:00Z');
const SELECTED = { startMs: T, endMs: T + 600_000 };
const SPAN = { startMs: T - 2_400_000, endMs: SELECTED.endMs };
const TIMES: Comparison = { before: '*', where: '_time:[…)', selected: SELECTED };
const GROUPS: Comparison = { before: '*', where: 'took_ms:>68.6', selected: null };

const PATTERN = {
  kind: 'pattern', field: '_msg', value: 'checksum <*>', selected: '80', expected: '0', others: '0', score: '20', first: '2026-11-02T10:01:00Z',
  with: '{"level":"error","app":"shop"}',
};
const HOST = { kind: 'value', field: 'host', value: 'web13', selected: '90', expected: '12', others: '48', score: '9' };
const OTHER = { kind: 'pattern', field: '_msg', value: 'mail <*>', selected: '50', expected: '0', others: '0', score: '8', first: '2026-11-02T10:00:30Z' };
const TOOK = { kind: 'number', field: 'took_ms', selected: '100', expected: '10', others: '40', score: '7', quantile: '0.99', from: '68.6', to: '548' };
const GONE = { kind: 'value', field: 'host', value: 'web3', selected: '0', expected: '130', others: '520', score: '-15', last: '2026-11-02T09:59:59Z' };
const FOUND = differencesOf([PATTERN, HOST, OTHER, TOOK, GONE]);

/** Combinations of differences with their numbers of lines, as the server counts them. */
const overlap = overlapOf(
  [
    { __selected: '1', __in0: '1', __in1: '1', n: '78' },
    { __selected: '1', __in0: '1', n: '2' },
    { __selected: '1', __in1: '1', n: '12' },
    { __selected: '1', __in2: '1', n: '50' },
    { __selected: '1', __in3: '1', n: '100' },
    { __selected: '1', n: '1000' },
    { __in4: '1', n: '520' },
    { n: '4000' },
  ],
  FOUND.length,
);

describe('stories', () => {
  it('counts lines by the differences that they belong to', () => {
    const { query, span } = overlapQuery(TIMES, FOUND.slice(0, 2), SPAN);
    expect(query).toBe(
      '* | format "1" as __selected | format if (pattern_match_full("checksum <*>")) "1" as __in0 | format if (host:="web13") "1" as __in1 | stats by (__selected, __in0, __in1) count() n | sort by (n desc) limit 5000',
    );
    expect(span).toEqual(SELECTED);
    // What is gone has lines on the other side only.
    expect(overlapQuery(TIMES, FOUND.slice(4), SPAN)).toMatchObject({ span: SPAN, query: expect.stringContaining('format if (_time:[…)) "1" as __selected') });
    expect(overlapQuery(GROUPS, FOUND.slice(0, 1), SPAN).span).toEqual(SPAN);
    expect(linesIn(overlap, true, 0, 1)).toBe(78);
    expect(linesIn(overlap, false)).toBe(4520);
  });

  it('are differences with the same lines', () => {
    const stories = storiesOf(FOUND, overlap);
    expect(stories.map(({ parts }) => parts.map(({ value, field }) => value || field))).toEqual([['checksum <*>', 'web13'], ['mail <*>'], ['took_ms'], ['web3']]);
    expect(stories.map(({ firstMs }) => firstMs)).toEqual([T + 60_000, T + 30_000, null, null]);
    expect(stories[3]?.lastMs).toBe(T - 1_000);
    // Without an answer, each difference stands alone.
    expect(storiesOf(FOUND, null)).toHaveLength(5);
  });

  it('do not join what nearly all lines have', () => {
    // All lines of the pattern have the value, as nearly all lines do: that says nothing.
    const app = differencesOf([PATTERN, { ...HOST, field: 'region', value: 'eu', selected: '950', expected: '800' }]);
    const rows: Row[] = [{ __selected: '1', __in0: '1', __in1: '1', n: '80' }, { __selected: '1', __in1: '1', n: '870' }, { __selected: '1', n: '50' }];
    expect(storiesOf(app, overlapOf(rows, 2))).toHaveLength(2);
  });

  it('say who and where, once', () => {
    const [story] = storiesOf(FOUND, overlap);
    expect(commonOfStory(story!)).toEqual([['app', 'shop'], ['host', 'web13'], ['level', 'error']]);
    expect(whoOf(commonOfStory(story!))).toBe('shop on web13');
    // Two values of a field are not what all lines have.
    expect(commonOfStory({ ...story!, parts: differencesOf([HOST, { ...HOST, value: 'web14' }]) })).toEqual([]);
  });

  it('are sentences', () => {
    const stories = storiesOf(FOUND, overlap);
    expect(stories.map((story) => sentenceOf(story, { kind: 'times' }))).toEqual([
      'shop on web13: “checksum <*>” came 80 times, never before',
      '“mail <*>” came 50 times, never before',
      'took_ms rose from 68.6 to 548 (p99)',
      'host “web3” is silent: 130 lines expected, 0 seen',
    ]);
    expect(sentenceOf(stories[3]!, { kind: 'groups', selected: null, others: null })).toBe('None of these lines has host = “web3”');
  });

  it('speak of groups where groups are compared', () => {
    const sides = { kind: 'groups', selected: 100, others: 1000 } as const;
    const [pattern, host, , , gone] = FOUND;
    expect([pattern, host, gone].map((one) => wordOf(one!, sides))).toEqual(['Only in these', 'More', 'Missing in these']);
    expect(amountOf(host!, sides)).toBe('in 90 of 100 of these lines (90%), in 48 of 1,000 of the others (5%)');
    expect(amountOf(gone!, { kind: 'times' })).toBe('130 lines expected, 0 seen');
    expect(amountOf(host!, { kind: 'times' })).toBe('90 lines, 12 expected');
  });

  it('are explained where their differences do not say whose lines they are', () => {
    const took = FOUND[3]!;
    expect(toExplain(storiesOf(FOUND, overlap)).map(({ head }) => head)).toEqual([took]);
    expect(causesQuery({ ...TIMES, before: 'app:=shop' }, took, SPAN)).toEqual({ query: 'app:=shop took_ms:* | differences 5 where (took_ms:>68.6)', span: SELECTED });
    expect(ownLines(TIMES, took, SPAN)).toEqual({ query: 'took_ms:* took_ms:>68.6', span: SELECTED });
    const upstream = { ...HOST, field: 'upstream', value: '10.0.0.3', selected: '95', expected: '15' };
    const found = differencesOf([upstream, { ...upstream, value: '10.0.0.4', selected: '80' }, { ...HOST, selected: '20' }, GONE]);
    expect(causesOf(found, took)).toEqual([{ field: 'upstream', value: '10.0.0.3', lines: 95, of: 100, expected: 15 }]);
    const facet = (field_name: string, ...hits: number[]) => ({ field_name, values: hits.map((n, at) => ({ field_value: `${field_name}${at}`, hits: n })) });
    const common = writersOf([facet('app', 99), facet('host', 60, 39), facet('path', 100), facet('region', 20)], 100);
    expect(common).toEqual([['app', 'app0']]);
    expect(sentenceOf(storiesOf(FOUND, overlap)[2]!, { kind: 'times' }, common)).toBe('app0: took_ms rose from 68.6 to 548 (p99)');
  });
});
