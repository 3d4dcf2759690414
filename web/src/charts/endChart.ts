// How a chart of ECharts ends.

import type { EChartsType } from 'echarts/core';

/**
 * Disposes of a chart. A large one is drawn in pieces, of which one may be due in the next frame and would fail without
 * the chart. Drawing an empty chart at once calls it off.
 */
export function endChart(chart: EChartsType): void {
  chart.clear();
  chart.getZr().flush();
  chart.dispose();
}
