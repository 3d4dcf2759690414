import { describe, expect, it } from 'vitest';
import type { Row } from '../../src/lib/base/jsonl';
import type { ShownFacet } from '../../src/lib/lines/facets';
import { rankStanding, scopeOfStanding, spanOfStanding, standingOf, standingQueries, type Standing } from '../../src/lib/lines/standing';

const MINUTE = 60_000;
const T = Date.parse('2026-11-02T10:00:30Z');
const SPAN = { startMs: T, endMs: T + 60 * MINUTE };

function facet(field: string, values: number, isNumber = false): ShownFacet {
  return {
    field,
    values: Array.from({ length: values }, (_, n) => ({ value: `v${n}`, hits: 1, included: false, excluded: false })),
    constant: values === 1,
    noise: false,
    lines: 10,
    numbers: isNumber ? { min: '1', p50: '2', p99: '3', max: '4' } : null,
  } as unknown as ShownFacet;
}

describe('what stands out', () => {
  it('watches fields that vary, and numbers that are no names', () => {
    const queries = standingQueries('app:=shop', SPAN, [
      facet('_level', 3), facet('_type', 1), facet('service', 2), facet('app', 2), facet('host', 20), facet('took_ms', 0, true), facet('user_id', 0, true),
    ]);
    expect(queries.map(({ field, isNumber }) => [field, isNumber])).toEqual([['_level', false], ['app', false], ['host', false], ['took_ms', true]]);
    expect(queries[2]?.query).toBe(
      'app:=shop | stats by (_time:60s, host) count() n | anomalies by (host) n step 60s' +
        ' | filter anomaly_new:1 _time:>="2026-11-02T10:00:30.000Z" | sort by (anomaly desc) | limit 3',
    );
    // Whole steps only, and time before the range to learn from.
    expect(queries[0]?.span).toEqual({ startMs: T - 180 * MINUTE + 30_000, endMs: T + 60 * MINUTE - 30_000 });
  });

  it('shows one thing of each moment', () => {
    const [query] = standingQueries('*', SPAN, [facet('host', 3)]);
    const rows: Row[] = [
      { _time: '2026-11-02T10:20:00Z', host: 'web7', n: '0', expected: '14', anomaly: '0.9', reason: 'too few' },
      { _time: '2026-11-02T10:21:00Z', host: 'web8', n: '30', expected: '14', anomaly: '0.6', reason: 'too many' },
      { _time: '2026-11-02T10:40:00Z', host: 'web9', n: '99', expected: '14', anomaly: '0.7', reason: 'too many' },
      { _time: '2026-11-02T10:30:00Z', host: 'web5', n: '99', expected: '110', anomaly: '1', reason: 'too few' },
      { _time: '2026-11-02T10:50:00Z', host: 'web9', n: '90', expected: '14', anomaly: '0.6', reason: 'too many' },
      { _time: 'x' } as Row,
    ];
    const found = rankStanding(standingOf(query as NonNullable<typeof query>, rows), MINUTE);
    expect(found.map((one) => one.value)).toEqual(['web9', 'web7']);
    // What stands out is compared with itself; of a silent series, nothing is left.
    expect(found.map(scopeOfStanding)).toEqual(['host:="web9"', '']);
    expect(scopeOfStanding({ ...(found[0] as Standing), field: 'took_ms', value: null })).toBe('took_ms:*');
    const at = Date.parse('2026-11-02T10:55:00Z');
    expect(spanOfStanding({ ...(found[0] as Standing), atMs: at }, SPAN)).toEqual({ startMs: at, endMs: SPAN.endMs });
  });
});
