// Schedules of dashboards by mail in words. Pure.

import type { Schedule, Wanted } from '../api/mails';

export const DAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'] as const;

const two = (value: number): string => String(value).padStart(2, '0');

/** `Each week on Monday and Friday at 07:30, Europe/Berlin, over 24h`. */
export function whenText({ every, hour, minute, weekdays, month_day, zone, range }: Wanted): string {
  const names = [...weekdays].sort((a, b) => a - b).map((day) => DAYS[day - 1] ?? '?');
  const last = names.pop() ?? '';
  const days = names.length === 0 ? last : `${names.join(', ')} and ${last}`;
  const on = { day: 'Each day', week: `Each week on ${days}`, month: `Each month on day ${month_day ?? 1}` }[every];
  return `${on} at ${two(hour)}:${two(minute)}, ${zone}, over ${range}`;
}

/** Addresses as they are written: one a line, or separated by commas. */
export function addressesOf(text: string): string[] {
  return text.split(/[,;\n]/).map((one) => one.trim()).filter((one) => one !== '');
}

/** An id that no other schedule has. */
export function freeId(schedules: readonly Pick<Schedule, 'id'>[]): string {
  const taken = new Set(schedules.map((one) => one.id));
  let number = 1;
  while (taken.has(`mail-${number}`)) number++;
  return `mail-${number}`;
}

/** The zones that can be chosen, as far as the browser knows them. */
export function zones(): string[] {
  return ['UTC', ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC')];
}

/** The zone of this browser. */
export function ownZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';
}
