// The colour of each series: that of its level or status, else one of a palette.

import { LEVELS, levelColor, levelOf, statusColor } from '../base/levels';
import { OTHERS } from './frame';

/** The colours of `--group-1` to `--group-8` in the style sheet. */
const GROUPS = 8;
const LEVEL_FIELDS = /^(_?level|severity_?text|lvl)$/i;
const STATUS_FIELDS = /^(http_)?status(_code)?$/i;

/** A colour for CSS; further rounds through the palette are lighter or darker, so that no two are the same. */
export function paletteColor(index: number): string {
  const color = `var(--group-${(index % GROUPS) + 1})`;
  const round = Math.floor(index / GROUPS);
  if (round === 0) return color;
  const share = 100 - 22 * Math.ceil((round % 6) / 2) - 4;
  return `color-mix(in oklab, ${color} ${share}%, ${round % 2 === 1 ? 'var(--text)' : 'var(--surface)'})`;
}

/** What is bad first, so that it is at the bottom of a stack: levels and status codes. Others keep their order. */
export function worstFirst<T extends { group: ReadonlyMap<string, string> | null }>(series: readonly T[], field: string | null): T[] {
  if (field === null || !(LEVEL_FIELDS.test(field) || STATUS_FIELDS.test(field))) return [...series];
  const rank = (one: T): number => {
    if (one.group === null) return Infinity;
    const value = one.group.get(field) ?? '';
    if (LEVEL_FIELDS.test(field)) return LEVELS.indexOf(levelOf(value));
    return /^[1-5]\d\d$/.test(value) ? -Number(value) : 0;
  };
  return [...series].sort((a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b)));
}

/** Colours of series in their order. `field` is the one they are grouped by, if it is a single one. */
export function colorsOf(series: readonly { label: string; group: ReadonlyMap<string, string> | null }[], field: string | null): string[] {
  const values = series.map((one) => (field === null ? '' : (one.group?.get(field) ?? '')));
  const isStatus = field !== null && STATUS_FIELDS.test(field) && values.some((value) => /^[1-5]\d\d$/.test(value));
  const isLevel = field !== null && LEVEL_FIELDS.test(field) && values.some((value) => levelOf(value) !== 'none');
  const codes = [...new Set(values)];
  const levels = new Set<string>();
  // By their names, not by their sizes: a series keeps its colour when another one becomes bigger.
  const order = new Map(series.map((one) => one.label).sort().map((label, at) => [label, at]));
  return series.map((one, at) => {
    const value = values[at] as string;
    if (one.group === null && one.label.endsWith(OTHERS)) return 'var(--group-other)';
    if (isStatus && /^[1-5]\d\d$/.test(value)) return statusColor(value, codes);
    if (isLevel) {
      const level = levelOf(value);
      if ((LEVELS as readonly string[]).includes(level) && !levels.has(level)) {
        levels.add(level);
        return levelColor(level);
      }
    }
    return paletteColor(one.group === null || one.group.size === 0 ? at : (order.get(one.label) ?? at));
  });
}
