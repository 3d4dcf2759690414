// Tenants: what each may use, and what it uses.

import { json, type CallOptions } from './call';

export interface TenantDay {
  /** UTC, as 2026-01-31. */
  day: string;
  lines: number;
  bytes: number;
  queries: number;
  lines_scanned: number;
  bytes_scanned: number;
}

export interface Tenant {
  id: string;
  name: string | null;
  bytes_per_s: number | null;
  lines_per_s: number | null;
  queries_max: number | null;
  query_memory_bytes_max: number | null;
  tails_max: number | null;
  background_max: number | null;
  results_bytes_max: number | null;
  disk_bytes_max: number | null;
  is_near_disk_limit: boolean;
  lines: number;
  bytes: number;
  requests_refused: number;
  lines_dropped: number;
  waited_ms: number;
  queries_refused: number;
  lines_evicted: number;
  bytes_evicted: number;
  lines_kept: number;
  bytes_kept: number;
  bytes_disk: number;
  queries_now: number;
  tails_now: number;
  background_now: number;
  results_bytes: number;
  /** The oldest first. */
  days: TenantDay[];
}

/** How much of a limit is used, from 0 to 1; null without a limit. */
export function shareOf(used: number, limit: number | null): number | null {
  return limit === null || limit <= 0 ? null : Math.min(1, used / limit);
}

/** What a tenant used on the day of `now`, a time in UTC. */
export function today(tenant: Tenant, now: string): TenantDay | null {
  return tenant.days.find((day) => now.startsWith(day.day)) ?? null;
}

/** What became of a tenant that was beyond a limit, for people; empty for one that never was. */
export function beyond(tenant: Tenant, count: (value: number, one: string, many?: string) => string): string {
  const said = [
    tenant.requests_refused > 0 ? `${count(tenant.requests_refused, 'request')} refused` : '',
    tenant.lines_dropped > 0 ? `${count(tenant.lines_dropped, 'line')} dropped` : '',
    tenant.waited_ms > 0 ? `connections waited ${Math.ceil(tenant.waited_ms / 1000)} s` : '',
    tenant.queries_refused > 0 ? `${count(tenant.queries_refused, 'query', 'queries')} refused` : '',
    tenant.lines_evicted > 0 ? `${count(tenant.lines_evicted, 'line')} deleted for room` : '',
  ];
  return said.filter((part) => part !== '').join(', ');
}

export async function tenants(options?: CallOptions): Promise<Tenant[]> {
  return (await json<{ tenants: Tenant[] }>('/api/v1/tenants', {}, options)).tenants;
}
