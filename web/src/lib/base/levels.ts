// Severity levels: one name and one colour for each, whatever names programs use.

export const LEVELS = ['emerg', 'alert', 'critical', 'error', 'warning', 'notice', 'info', 'debug', 'none'] as const;
export type Level = (typeof LEVELS)[number];

const ALIASES = new Map<string, Level>(Object.entries({
  emergency: 'emerg',
  panic: 'emerg',
  crit: 'critical',
  fatal: 'critical',
  err: 'error',
  eror: 'error',
  severe: 'error',
  warn: 'warning',
  information: 'info',
  informational: 'info',
  trace: 'debug',
  verbose: 'debug',
}));

/** The level a field's value stands for; `none` for an empty or unknown one. */
export function levelOf(value: string | undefined): Level {
  const name = (value ?? '').toLowerCase();
  if ((LEVELS as readonly string[]).includes(name)) return name as Level;
  return ALIASES.get(name) ?? 'none';
}

/** The CSS custom property that holds the level's colour in the current theme. */
export function levelColor(level: Level): string {
  return `var(--level-${level})`;
}

/** Levels for which an operator is called. */
export function isSevere(level: Level): boolean {
  return level === 'emerg' || level === 'alert' || level === 'critical' || level === 'error';
}

/**
 * Colour of an HTTP status code: red tones for 5xx, orange for 4xx, muted for the rest. Codes of one class differ in
 * lightness by their index in `codes`.
 */
export function statusColor(code: string, codes: readonly string[]): string {
  const group = /^[1-5]\d\d$/.test(code) ? (code[0] as string) : '0';
  const siblings = codes.filter((other) => other[0] === code[0]).sort();
  const place = Math.min(siblings.indexOf(code), 5);
  const shift = place <= 0 ? 0 : Math.ceil(place / 2) * 14 * (place % 2 === 1 ? 1 : -1);
  const tint = shift >= 0 ? 'white' : 'black';
  return shift === 0
    ? `var(--status-${group})`
    : `color-mix(in oklab, var(--status-${group}) ${100 - Math.abs(shift) * 1.4}%, ${tint})`;
}
