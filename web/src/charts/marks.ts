// Marks on the time axis: a triangle above and a line through the chart for what began, a short
// line for what ended, a line with a square above for what people did.

import type uPlot from 'uplot';
import type { TimeMark } from '../lib/chart/series';
import { theme } from '../lib/state/theme.svelte';

const COLORS = { bad: 'var(--level-alert)', good: 'var(--good)', note: 'var(--accent)' };
const SIZE_PX = 8;
const SHORT_PX = 10;

export function drawMark({ ctx, bbox, valToPos }: uPlot, { ms, tone }: TimeMark): void {
  const scale = devicePixelRatio;
  // In the middle of a pixel, so that a thin line is not blurred.
  const [x, top, bottom, size] = [Math.floor(valToPos(ms, 'x', true)) + 0.5, bbox.top, bbox.top + bbox.height, SIZE_PX * scale];
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = theme.color(COLORS[tone]);
  ctx.lineWidth = (tone === 'good' ? 2 : 1) * scale;
  ctx.setLineDash(tone === 'good' ? [] : [3 * scale, 2 * scale]);
  ctx.beginPath();
  ctx.moveTo(x, tone === 'good' ? bottom - SHORT_PX * scale : top);
  ctx.lineTo(x, bottom);
  ctx.stroke();
  ctx.beginPath();
  if (tone === 'bad') {
    ctx.moveTo(x - size / 2, top - size);
    ctx.lineTo(x + size / 2, top - size);
    ctx.lineTo(x, top);
  } else if (tone === 'note') ctx.rect(x - size / 2, top - size, size, size);
  ctx.fill();
  ctx.restore();
}
