// Axes that look like those of the rest of the page.

import type uPlot from 'uplot';
import { prefs } from '../lib/state/prefs.svelte';
import { tickText } from '../lib/base/steps';
import { theme } from '../lib/state/theme.svelte';
import { clockParts, formatInstant, type Span } from '../lib/base/time';

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';
const CHAR_PX = 6.4;
/** The height of an axis below a chart. */
export const AXIS_PX = 26;

/** The time below a chart, in the zone of the page. */
export function timeAxis(): uPlot.Axis {
  return {
    ...look(),
    space: 78,
    size: AXIS_PX,
    values: (_, splits, __, ___, spacingMs) =>
      splits.map((ms) => {
        const { date, time } = clockParts(ms, prefs.utc);
        return tickText(date, time, ms, spacingMs);
      }),
  };
}

/** An axis of numbers. `steps` are the distances between its ticks that look round. */
export function yAxis(scale: 'left' | 'right', format: (value: number) => string, steps: number[] | null, isLog: boolean): uPlot.Axis {
  return {
    ...look(),
    scale,
    side: scale === 'left' ? 3 : 1,
    // A low chart has at least two ticks as well.
    space: (_, __, ___, ____, plotPx) => Math.min(34, plotPx / 3),
    ...(scale === 'right' ? { grid: { show: false } } : {}),
    ...(steps === null || isLog ? {} : { incrs: steps }),
    size: (_, values) => Math.min(110, Math.max(40, 16 + CHAR_PX * Math.max(0, ...(values ?? []).map((text) => text?.length ?? 0)))),
    values: (_, splits) => splits.map((value) => (value === null ? '' : format(value))),
  };
}

/** An axis of numbers below a chart. */
export function xAxis(format: (value: number) => string): uPlot.Axis {
  return { ...look(), space: 60, size: AXIS_PX, values: (_, splits) => splits.map((value) => (value === null ? '' : format(value))) };
}

function look(): uPlot.Axis {
  const grid = theme.color('var(--grid)');
  return { font: FONT, stroke: theme.color('var(--faint)'), grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 }, border: { show: false } };
}

/** `2026-01-31 12:00:00 – 12:05:00` */
export function bucketLabel({ startMs, endMs }: Span, utc: boolean): string {
  const from = formatInstant(startMs, utc, 'auto');
  const to = formatInstant(endMs, utc, 'auto');
  return `${from} – ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to}`;
}
