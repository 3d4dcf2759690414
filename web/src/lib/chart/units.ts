// Units of numbers: guessed from names, chosen by people, and how a number with a unit is written.

import { formatBytes, formatBytesShort, formatNumber } from '../base/format';
import { showNumber } from '../base/table';

/** `percent` is of numbers from 0 to 100, `ratio` of numbers from 0 to 1. */
export const UNITS = ['number', 'bytes', 'ns', 'us', 'ms', 's', 'percent', 'ratio'] as const;
export type Unit = (typeof UNITS)[number];

export const UNIT_LABELS: Record<Unit, string> = {
  number: 'Number',
  bytes: 'Bytes',
  ns: 'Nanoseconds',
  us: 'Microseconds',
  ms: 'Milliseconds',
  s: 'Seconds',
  percent: 'Percent (0–100)',
  ratio: 'Share (0–1)',
};

/** Functions of `stats` that count rows or values: whatever they count, the result has no unit. */
const COUNTS = /^(count|count_empty|count_uniq|count_uniq_hash|rate|sum_len|row_.*|histogram)$/;

/** The words of a name: `durationMs` and `duration_ms` have the same. */
function words(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split(/[^a-z0-9µ]+/)
    .filter((word) => word !== '');
}

function unitOfName(name: string): Unit | null {
  const all = words(name);
  const last = all[all.length - 1] ?? '';
  if (/^(ns|nanos|nanoseconds?)$/.test(last)) return 'ns';
  if (/^(us|µs|micros|microseconds?)$/.test(last)) return 'us';
  if (/^(ms|millis|milliseconds?)$/.test(last)) return 'ms';
  if (/^(s|sec|secs|seconds?)$/.test(last)) return 's';
  if (all.some((word) => /^(bytes?|octets)$/.test(word))) return 'bytes';
  if (all.some((word) => /^(percent|percentage|pct)$/.test(word))) return 'percent';
  if (/^(ratio|share|fraction)$/.test(last)) return 'ratio';
  return null;
}

/**
 * The unit of a column: by its own name, else by the field that its function is about. The length in bytes is what
 * `sum_len` gives, and counts are plain numbers.
 */
export function guessUnit(column: string, fn: string | null, field: string | null): Unit {
  if (fn === 'sum_len') return 'bytes';
  if (fn !== null && COUNTS.test(fn)) return 'number';
  return unitOfName(column) ?? (field === null ? null : unitOfName(field)) ?? 'number';
}

const SECONDS: Partial<Record<Unit, number>> = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1 };

/** Three digits, without trailing zeros. */
function digits(value: number): string {
  return String(Number(value.toPrecision(3)));
}

/** 0.0042 → `4.2 ms`, 90 → `1m 30s`. */
function formatSeconds(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return '0 s';
  if (size < 0.9995e-6) return `${digits(value * 1e9)} ns`;
  if (size < 0.9995e-3) return `${digits(value * 1e6)} µs`;
  if (size < 0.9995) return `${digits(value * 1e3)} ms`;
  if (size < 59.95) return `${digits(value)} s`;
  const sign = value < 0 ? '−' : '';
  const whole = Math.round(size);
  const parts = ([[86_400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']] as const).map(([unit, name], at, all) => {
    const above = all[at - 1]?.[0];
    return [Math.floor((above === undefined ? whole : whole % above) / unit), name] as const;
  });
  const first = parts.findIndex(([count]) => count > 0);
  return sign + parts.slice(first, first + 2).filter(([count]) => count > 0).map(([count, name]) => `${count}${name}`).join(' ');
}

/** A number for an axis or a narrow place, with three digits. */
export function formatUnitShort(value: number, unit: Unit): string {
  const seconds = SECONDS[unit];
  if (seconds !== undefined) return formatSeconds(value * seconds);
  if (unit === 'bytes') return formatBytesShort(value);
  if (unit === 'percent') return `${digits(value)}%`;
  if (unit === 'ratio') return `${digits(value * 100)}%`;
  return formatNumber(value);
}

/** A number where there is room for it. */
export function formatUnit(value: number, unit: Unit): string {
  if (unit === 'bytes') return formatBytes(value);
  if (unit === 'number') return showNumber(String(value), false);
  return formatUnitShort(value, unit);
}

/** Distances between the ticks of an axis that look round in the unit; null for powers of ten. */
export function tickSteps(unit: Unit): number[] | null {
  if (unit === 'bytes') return Array.from({ length: 50 }, (_, power) => 2 ** power);
  if (unit !== 's') return null;
  const small = [1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1].flatMap((power) => [power, 2 * power, 5 * power]);
  return [...small, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000];
}

const DURATION_PART = /(\d+(?:\.\d+)?)(ns|µs|us|ms|s|m|h|d|w)/g;
const DURATION_S: Record<string, number> = { ns: 1e-9, µs: 1e-6, us: 1e-6, ms: 1e-3, s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 };

/**
 * The number that a value of the server stands for; null if it is none. `min` and `max` give durations as they were
 * written, such as `1m2.5s`: they become nanoseconds, which all other functions give.
 */
export function toNumber(text: string | undefined): number | null {
  if (text === undefined || text === '') return null;
  const value = Number(text);
  if (!Number.isNaN(value)) return Number.isFinite(value) ? value : null;
  if (!/^-?(?:\d+(?:\.\d+)?(?:ns|µs|us|ms|s|m|h|d|w))+$/.test(text)) return null;
  let total = 0;
  for (const [, number, name] of text.matchAll(DURATION_PART)) total += Number(number) * (DURATION_S[name as string] as number);
  return (text.startsWith('-') ? -1 : 1) * total * 1e9;
}

/** Whether a value is a duration as people write it, which `toNumber` reads as nanoseconds. */
export function isDuration(text: string): boolean {
  return Number.isNaN(Number(text)) && toNumber(text) !== null;
}
