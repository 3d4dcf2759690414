import { describe, expect, it } from 'vitest';
import type { Row } from '../../src/lib/base/jsonl';
import { chronicOf, chronicQueries, compareChronic, rankChronic, silencesOf, type Chronic } from '../../src/lib/lines/chronic';
import type { StandingQuery } from '../../src/lib/lines/standing';

const MINUTE = 60_000;
const T = Date.parse('2026-11-02T10:00:00Z');
/** Four hours in steps of a minute. */
const SPAN = { startMs: T, endMs: T + 240 * MINUTE };
const ERRORS: StandingQuery = { field: '_level', isNumber: false, query: '', span: SPAN };
const HEAP: StandingQuery = { field: 'rss_mb', isNumber: true, query: '', span: SPAN };

/** Pseudo-random numbers from 0 to 1. */
function noise(seed: number): () => number {
  let x = seed;
  return () => (x = (x * 48_271) % 2_147_483_647) / 2_147_483_647;
}

const rows = (number: (minute: number) => number, more: Row = {}): Row[] =>
  Array.from({ length: 240 }, (_, minute) => ({ _time: new Date(T + minute * MINUTE).toISOString(), n: String(number(minute)), ...more }));

describe('chronic things', () => {
  it('are asked of the series that are watched', () => {
    expect(chronicQueries('app:=shop', [ERRORS, HEAP]).map(({ query }) => query)).toEqual([
      'app:=shop | stats by (_time:60s, _level) count() n',
      'app:=shop | stats by (_time:60s) quantile(0.9, rss_mb) n',
    ]);
  });

  it('have a rhythm', () => {
    const random = noise(7);
    const found = chronicOf(ERRORS, rows((minute) => 3 + Math.floor(4 * random()) + (minute % 20 === 5 ? 60 : 0), { _level: 'error' }));
    expect(found).toMatchObject([{ kind: 'rhythm', field: '_level', value: 'error', periodMs: 20 * MINUTE }]);
    const [one] = found as (Chronic & { kind: 'rhythm' })[];
    expect(one?.bursts).toHaveLength(12);
    expect(one?.bursts[0]).toEqual({ startMs: T + 5 * MINUTE, endMs: T + 6 * MINUTE });
    const { query, span } = compareChronic('app:=shop', one!, SPAN);
    expect(query).toMatch(/^app:=shop \| differences where \(_time:\[2026-11-02T10:05:00.000Z, 2026-11-02T10:06:00.000Z\) or .*\)$/);
    expect(span).toEqual({ startMs: T + 5 * MINUTE, endMs: SPAN.endMs });
  });

  it('grow', () => {
    const random = noise(11);
    const found = chronicOf(HEAP, rows((minute) => 400 + 2 * minute + 60 * random()));
    expect(found).toMatchObject([{ kind: 'growth', field: 'rss_mb', value: null }]);
    expect(compareChronic('*', found[0]!, SPAN).query).toBe('rss_mb:* | differences where (_time:[2026-11-02T13:00:00.000Z, 2026-11-02T14:00:00.000Z)) scale 0.333333');
  });

  it('are not silence, which is told apart', () => {
    const random = noise(13);
    const until = (end: number): Row[] => rows(() => Math.floor(8 * random()), { _level: 'error' }).slice(0, end);
    expect(silencesOf(ERRORS, until(231))).toMatchObject([{ field: '_level', value: 'error', number: 0, score: 1, atMs: T + 231 * MINUTE }]);
    // Three minutes without a line may be chance where few come; lines once an hour are never silent for ten minutes.
    expect(silencesOf(ERRORS, until(238))).toEqual([]);
    expect(silencesOf(ERRORS, rows((minute) => (minute % 60 === 1 ? 50 : 0), { _level: 'error' }))).toEqual([]);
    expect(silencesOf(HEAP, until(200))).toEqual([]);
  });

  it('are neither noise nor single bursts', () => {
    for (let seed = 1; seed <= 40; seed++) {
      const random = noise(seed * 7919);
      const bursty = (): number => Math.floor(5 * random()) + (random() < 0.04 ? 80 : 0);
      expect(chronicOf(ERRORS, rows(bursty, { _level: 'error' })), `seed ${seed}`).toEqual([]);
      expect(chronicOf(HEAP, rows(() => 400 + 90 * random())), `seed ${seed}`).toEqual([]);
    }
    expect(chronicOf(ERRORS, rows((minute) => (minute > 200 ? 90 : 3), { _level: 'error' }))).toEqual([]);
    expect(chronicOf(HEAP, [])).toEqual([]);
  });

  it('are told once for each rhythm', () => {
    const rhythm = (value: string, periodMs: number, peak: number): Chronic => ({ kind: 'rhythm', field: 'app', value, periodMs, bursts: [], usual: 1, peak });
    expect(rankChronic([rhythm('a', 1, 5), rhythm('b', 1, 9), rhythm('c', 2, 3), rhythm('d', 3, 2)]).map(({ value }) => value)).toEqual(['b', 'c']);
  });
});
