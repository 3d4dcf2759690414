import { describe, expect, it } from 'vitest';
import { NO_OPTIONS } from '../../src/lib/chart/options';
import { changePanel, exportText, heightBeside, idFor, importDashboard, movePanel, movePanelTo, nearestHeight, nearestWidth, PANELS_MAX, readDashboard, withPanel, withoutPanel, writeDashboard, type Dashboard } from '../../src/lib/chart/dashboards';

const empty: Dashboard = { id: 'web', title: 'Web', version: 3, variables: [{ name: 'host', field: 'hostname' }], panels: [] };
const panel = { title: 'Errors', query: 'error | stats by (_time:5m) count() n', text: '', width: 6, height: 'normal', options: { ...NO_OPTIONS, kind: 'bars', hidden: ['x'] } } as const;
const two = withPanel(withPanel(empty, panel), { ...panel, title: 'Second', width: 12 });

describe('a dashboard', () => {
  it('is the same after writing and reading', () => {
    expect(readDashboard(JSON.parse(JSON.stringify(writeDashboard(two))))).toEqual(two);
  });
  it('has texts beside queries', () => {
    const third = withPanel(two, { ...panel, query: '', text: 'Call the shop.' });
    expect(readDashboard(writeDashboard(third))).toEqual(third);
    expect(writeDashboard(third)['panels']).toMatchObject([{}, {}, { text: 'Call the shop.' }]);
  });
  it('is imported as a new one', () => {
    expect(importDashboard(exportText(two))).toEqual({ ...two, id: '', version: 0 });
  });
  it.each([
    ['x', 'JSON'],
    ['[]', 'JSON object'],
    ['{"panels":[]}', 'title'],
    ['{"title":" ","panels":[]}', 'title'],
    ['{"title":"a"}', 'panels'],
    ['{"title":"a","panels":[{"query":"*"},{"title":"b"}]}', 'Panel 2'],
    ['{"title":"a","panels":[null]}', 'Panel 1'],
    [JSON.stringify({ title: 'a', panels: Array(PANELS_MAX + 1).fill({ query: '*' }) }), 'at most'],
  ])('%s is refused with the reason', (file, reason) => {
    const read = importDashboard(file);
    expect('error' in read && read.error).toContain(reason);
  });
  it('with broken details gets defaults', () => {
    const read = readDashboard({ title: 'a', version: 'x', panels: [{ id: '1', query: '', width: 7, height: 'huge', options: 5 }, { id: '1', query: '*', width: 1e9 }] });
    if ('error' in read) throw new Error(read.error);
    expect(read.panels.map(({ id, width, height }) => [id, width, height])).toEqual([['1', 7, 'normal'], ["1'", 12, 'normal']]);
    expect(read.version).toBe(0);
  });
  it('gets an id from its title', () => {
    expect(idFor('Web – Errors!', ['web-errors'])).toBe('web-errors-2');
    expect(idFor('日本', [])).toBe('dashboard');
  });
});

describe('panels', () => {
  it('are added, changed, moved and removed', () => {
    expect(two.panels.map((one) => one.id)).toEqual(['1', '2']);
    expect(movePanel(two, '2', -1).panels.map((one) => one.id)).toEqual(['2', '1']);
    expect(movePanel(two, '2', 5)).toBe(two);
    expect(movePanel(two, 'gone', 1)).toBe(two);
    expect(movePanelTo(two, '2', '1').panels.map((one) => one.id)).toEqual(['2', '1']);
    expect(movePanelTo(two, '1', 'gone')).toBe(two);
    expect([1, 4.4, 99].map(nearestWidth)).toEqual([3, 4, 12]);
    expect([0, 200, 999].map(nearestHeight)).toEqual(['small', 'normal', 'tall']);
    expect([heightBeside('normal', 1), heightBeside('tall', 1)]).toEqual(['tall', 'tall']);
    expect(changePanel(two, '1', { title: 'New', id: '9' }).panels[0]).toMatchObject({ id: '1', title: 'New' });
    const left = withoutPanel(two, '1');
    expect(left.panels.map((one) => one.id)).toEqual(['2']);
    expect(withPanel(left, panel).panels.map((one) => one.id)).toEqual(['2', '3']);
  });
});
