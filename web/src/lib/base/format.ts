// Numbers for people.

export function formatCount(value: number): string {
  return Math.round(value).toLocaleString('en-GB');
}

/** 1 → `1 row`, 2000 → `2,000 rows`. `many` is the plural that does not end in `s`. */
export function formatOf(value: number, one: string, many = `${one}s`): string {
  return `${formatCount(value)} ${value === 1 ? one : many}`;
}

/** 1234 → `1.23k`: for axes and narrow places. */
export function formatShort(value: number): string {
  for (const [size, unit] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']] as const) {
    if (Math.abs(value) >= size) return `${trim(value / size)}${unit}`;
  }
  return trim(value);
}

/** 905.8137 → `906`, 20.25 → `20.3`, 1234567 → `1.23M`: three digits, for narrow places. */
export function formatNumber(value: number): string {
  return Math.abs(value) < 0.01 && value !== 0 ? value.toPrecision(2) : formatShort(value);
}

/** 1536 → `1.5 KiB`. */
export function formatBytes(value: number): string {
  for (const [size, unit] of [[2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB']] as const) {
    if (Math.abs(value) >= size) return `${trim(value / size)} ${unit}`;
  }
  return `${Math.round(value)} B`;
}

/** 1536 → `1.5K`: for axes. */
export function formatBytesShort(value: number): string {
  for (const [size, unit] of [[2 ** 40, 'T'], [2 ** 30, 'G'], [2 ** 20, 'M'], [2 ** 10, 'K']] as const) {
    if (Math.abs(value) >= size) return `${trim(value / size)}${unit}`;
  }
  return `${Math.round(value)}`;
}

/** 83 → `83 ms`, 1234 → `1.23 s`, 90000 → `1m 30s`. */
export function formatMillis(value: number): string {
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${trim(value / 1000)} s`;
  const seconds = Math.round(value / 1000);
  const parts: [number, string][] = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [seconds % 60, 's'],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  return parts
    .slice(first, first + 2)
    .map(([count, unit]) => `${count}${unit}`)
    .join(' ');
}

export function formatPercent(part: number, whole: number): string {
  if (whole <= 0) return '0%';
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 1) return '<1%';
  // What is rounded to all must be all.
  return percent < 100 && percent >= 99.5 ? '>99%' : `${Math.round(percent)}%`;
}

function trim(value: number): string {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}
