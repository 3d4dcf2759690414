import { describe, expect, test } from 'vitest';
import { beyond, shareOf, today, type Tenant } from '../../src/lib/api/tenants';
import { formatOf } from '../../src/lib/base/format';

const tenant: Tenant = {
  id: '12:3', name: 'shop', bytes_per_s: null, lines_per_s: null, queries_max: null, query_memory_bytes_max: null, tails_max: null,
  background_max: null, results_bytes_max: null, disk_bytes_max: null, is_near_disk_limit: false, lines: 0, bytes: 0, requests_refused: 0,
  lines_dropped: 0, waited_ms: 0, queries_refused: 0, lines_evicted: 0, bytes_evicted: 0, lines_kept: 0, bytes_kept: 0, bytes_disk: 0,
  queries_now: 0, tails_now: 0, background_now: 0, results_bytes: 0,
  days: [
    { day: '2026-01-30', lines: 1, bytes: 2, queries: 3, lines_scanned: 4, bytes_scanned: 5 },
    { day: '2026-01-31', lines: 6, bytes: 7, queries: 8, lines_scanned: 9, bytes_scanned: 10 },
  ],
};

describe('what a tenant uses', () => {
  test('as a share of a limit', () => {
    expect([shareOf(1, null), shareOf(1, 4), shareOf(9, 4), shareOf(1, 0)]).toEqual([null, 0.25, 1, null]);
  });

  test('today', () => {
    expect(today(tenant, '2026-01-31T00:00:01Z')?.lines).toBe(6);
    expect(today(tenant, '2026-02-01T00:00:01Z')).toBeNull();
  });

  test('beyond its limits', () => {
    expect(beyond(tenant, formatOf)).toBe('');
    const limited = { ...tenant, requests_refused: 1, waited_ms: 1_001, queries_refused: 2, lines_evicted: 3 };
    expect(beyond(limited, formatOf)).toBe('1 request refused, connections waited 2 s, 2 queries refused, 3 lines deleted for room');
  });
});
