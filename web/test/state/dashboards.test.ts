import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Dashboard } from '../../src/lib/chart/dashboards';
import { dashboardsState as state } from '../../src/lib/state/dashboards.svelte';

const VARIABLE = { name: 'host', field: 'hostname' };
const saved: Dashboard = { id: 'mine', title: 'Mine', version: 1, variables: [], panels: [] };
const edited: Dashboard = { ...saved, variables: [VARIABLE] };

/** Calls that wait for their answers, in their order. */
let calls: { path: string; method: string; body: string; answer: (value: unknown) => void }[];

beforeEach(() => {
  calls = [];
  vi.stubGlobal('fetch', (url: URL | string, options: RequestInit = {}) => {
    const path = new URL(String(url), 'http://server').pathname;
    return new Promise<Response>((resolve) => {
      calls.push({ path, method: options.method ?? 'GET', body: String(options.body ?? ''), answer: (value) => resolve(Response.json(value)) });
    });
  });
  state.show(saved);
});
afterEach(() => vi.unstubAllGlobals());

async function called(method: string, path: string): Promise<(typeof calls)[number]> {
  return vi.waitFor(() => {
    const at = calls.findIndex((one) => one.method === method && one.path === path);
    expect(at, `${method} ${path}`).toBeGreaterThanOrEqual(0);
    return calls.splice(at, 1)[0] as (typeof calls)[number];
  });
}

const PATH = '/api/v1/dashboards/mine';

/** Answers the two calls of a save. */
async function answerSave(version: number): Promise<void> {
  const put = await called('PUT', PATH);
  put.answer({ ...(JSON.parse(put.body) as object), version });
  (await called('GET', '/api/v1/dashboards')).answer({ dashboards: [] });
}

test('changes that are made while a dashboard is loaded stay', async () => {
  const opened = state.open('mine');
  const get = await called('GET', PATH);
  state.edit(edited);
  get.answer(saved);
  await opened;
  expect(state.shown).toEqual(edited);
  expect(state.isChanged).toBe(true);
});

test('changes that are made while a dashboard is saved stay, and are saved next', async () => {
  state.edit(edited);
  const first = state.save(edited);
  state.edit({ ...edited, title: 'Ours' });
  await answerSave(2);
  await first;
  expect(state.shown).toEqual({ ...edited, title: 'Ours', version: 2 });
  expect(state.isChanged).toBe(true);

  const second = state.save(state.shown as Dashboard);
  await answerSave(3);
  await second;
  expect(state.shown).toEqual({ ...edited, title: 'Ours', version: 3 });
  expect(state.isChanged).toBe(false);
});

test('changes stay those of their version when another one is saved', async () => {
  state.edit(edited);
  const other = state.save({ ...saved, title: 'Other' });
  await answerSave(2);
  await other;
  expect(state.shown).toEqual(edited);
  expect(state.isChanged).toBe(true);
});

test('without changes, what was saved or loaded is shown', async () => {
  const other = state.save({ ...saved, title: 'Other' });
  await answerSave(2);
  await other;
  expect(state.shown).toEqual({ ...saved, title: 'Other', version: 2 });

  const opened = state.open('mine');
  (await called('GET', PATH)).answer({ ...saved, version: 3 });
  await opened;
  expect(state.shown?.version).toBe(3);
});
