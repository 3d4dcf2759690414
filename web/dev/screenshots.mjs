// Retakes the pictures of README.md: `LOGINSON_URL=http://127.0.0.1:9514 node dev/screenshots.mjs`
// next to `make demo`, once its history has arrived. Prints the facts for the text next to the
// pictures: the time of the incident and the numbers.

import { chromium } from '@playwright/test';

const base = process.env.LOGINSON_URL ?? 'http://127.0.0.1:9514';
const out = new URL('../../docs/images/', import.meta.url).pathname;
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
const page = await browser.newPage({ baseURL: base, viewport: { width: 1280, height: 620 }, colorScheme: 'light' });
page.setDefaultTimeout(60_000);

async function settled() {
  await page.getByTestId('hits').waitFor();
  await page.waitForFunction(() => document.querySelector('[data-testid="cancel"]')?.disabled);
  await page.getByTestId('facet').first().waitFor();
}

await page.goto('/?view=summary&range=1h&type=access');
const spike = page.locator('[data-testid="spike"][data-value="500"]').first();
await spike.waitFor();
await page.getByText('lines/s').waitFor();
await page.waitForFunction(() => document.querySelector('[data-testid="strip-rate"]')?.textContent !== '–');
await page.screenshot({ path: `${out}summary.png` });
console.log('stands out:', (await spike.innerText()).replace(/\s+/g, ' '));

const bars = page.getByTestId('summary-by-status').locator('[data-testid="summary-bar"][data-series="500"]');
const values = await bars.evaluateAll((all) => all.map((bar) => Number(bar.dataset.value)));
const peak = bars.nth(values.indexOf(Math.max(...values)));
const peakMs = Number(await peak.getAttribute('data-from'));
console.log('the highest bar:', Math.max(...values), new Date(peakMs).toISOString());
// What a click on the bar leads to; the bars are drawn on a canvas.
const peakTo = Number(await peak.getAttribute('data-to')) || peakMs + 30_000;
await page.goto(`/?query=${encodeURIComponent('_type:="access" status:="500"')}&from=${new Date(peakMs).toISOString()}&to=${new Date(peakTo).toISOString()}`);
await settled();
console.log('its lines:', await page.getByTestId('hits').innerText());
await page.screenshot({ path: `${out}lines.png` });

// From before the dump to the end of its effects.
const [from, to] = [new Date(peakMs - 4 * 60_000).toISOString(), new Date(peakMs + 3.5 * 60_000).toISOString()];
console.log('the range:', from, to);
await page.setViewportSize({ width: 1280, height: 560 });
await page.goto(`/?query=${encodeURIComponent('hostname:="db1" "/var"')}&from=${from}&to=${to}`);
await settled();
await page.screenshot({ path: `${out}cause.png` });

// What changed from the beginning of the incident on, in all logs.
await page.setViewportSize({ width: 1280, height: 760 });
await page.goto(`/?from=${from}&to=${to}`);
await settled();
await page.getByTestId('changed-toggle').click();
await page.getByTestId('story').first().waitFor();
await settled();
console.log('what changed:', (await page.getByTestId('story').allInnerTexts()).slice(0, 6).map((text) => text.replace(/\s+/g, ' ')).join('\n  '));
await page.screenshot({ path: `${out}changed.png` });

// A ready dashboard, which is deleted again.
await page.setViewportSize({ width: 1280, height: 900 });
await page.goto('/?view=dashboards');
await page.locator('[data-testid=ready][data-title="Web servers"]').click();
await page.getByTestId('panel').nth(7).waitFor();
await page.waitForFunction(() => document.querySelectorAll('[data-testid=chart-panel][data-loading]').length === 0);
await page.waitForTimeout(1000);
await page.screenshot({ path: `${out}dashboard.png` });
await page.getByTestId('dashboard-delete').click();
await page.getByTestId('dashboard-delete-yes').click();
await page.getByTestId('dashboards-list').waitFor();
await browser.close();
