import { expect, test } from 'vitest';
import type { Wanted } from '../../src/lib/api/mails';
import { addressesOf, freeId, whenText, zones } from '../../src/lib/events/mails';
import { exportText, importDashboard, writeDashboard } from '../../src/lib/chart/dashboards';

const wanted: Wanted = { receiver: 'ops', addresses: [], every: 'day', hour: 7, minute: 5, weekdays: [], month_day: null, zone: 'UTC', range: '24h', variables: {} };

test('a schedule in words', () => {
  expect(whenText(wanted)).toBe('Each day at 07:05, UTC, over 24h');
  expect(whenText({ ...wanted, every: 'week', weekdays: [5, 1, 3] })).toBe('Each week on Monday, Wednesday and Friday at 07:05, UTC, over 24h');
  expect(whenText({ ...wanted, every: 'week', weekdays: [7] })).toBe('Each week on Sunday at 07:05, UTC, over 24h');
  expect(whenText({ ...wanted, every: 'month', month_day: 31 })).toBe('Each month on day 31 at 07:05, UTC, over 24h');
});

test('addresses and ids', () => {
  expect(addressesOf(' a@b.c, Ann <d@e.f>\n\n;g@h.i ')).toEqual(['a@b.c', 'Ann <d@e.f>', 'g@h.i']);
  expect(freeId([{ id: 'mail-1' }, { id: 'mail-3' }])).toBe('mail-2');
  expect(zones()).toContain('Europe/Berlin');
});

test('an export has its schedules, and an import gives them to the server', () => {
  const dashboard = { id: 'web', title: 'Web', version: 3, variables: [], panels: [] };
  expect(exportText(dashboard)).not.toContain('mails');
  const read = importDashboard(exportText(dashboard, [wanted]));
  if ('error' in read) throw new Error(read.error);
  expect(writeDashboard(read)['mails']).toEqual([wanted]);
});
