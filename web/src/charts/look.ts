// What axes of ECharts look like: as those of uPlot in axes.ts.

import { theme } from '../lib/state/theme.svelte';

export function axisLook(): { axisLabel: object; axisLine: object; axisTick: object; splitLine: object } {
  const grid = theme.color('var(--grid)');
  return {
    axisLabel: { color: theme.color('var(--faint)'), fontSize: 11, hideOverlap: true },
    axisLine: { lineStyle: { color: grid } },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: grid } },
  };
}
