import { describe, expect, it } from 'vitest';
import { READY } from '../../src/dashboards/ready';
import { fromLogQl, importGrafana, isGrafana } from '../../src/dashboards/grafana';
import { readDashboard, writeDashboard } from '../../src/lib/chart/dashboards';
import { chosenFrom, readVariables, toggleChosen, variableFor, withVariables, writeChosen } from '../../src/lib/query/variables';

const HOST = { name: 'host', field: 'hostname' };

describe('variables', () => {
  it('stand for whole filters', () => {
    const of = (query: string, values: string[]): string => withVariables(query, [HOST], { host: values });
    expect(of('error $host | stats count() n', [])).toBe('error * | stats count() n');
    expect(of('error $host', ['web1'])).toBe('error hostname:="web1"');
    expect(of('$host', ['a', 'b" or *'])).toBe('(hostname:="a" or hostname:="b\\" or *")');
    // Text stays text, and other names stay as they are.
    expect(of('"$host" \'$host\' `$host` $hosts $other', ['a'])).toBe('"$host" \'$host\' `$host` $hosts $other');
  });
  it('have several values, or all', () => {
    const one = toggleChosen({}, 'host', 'a');
    expect(one).toEqual({ host: ['a'] });
    const two = toggleChosen(one, 'host', 'b');
    expect(two).toEqual({ host: ['a', 'b'] });
    expect(toggleChosen(toggleChosen(two, 'host', 'a'), 'host', 'b')).toEqual({});
  });
  it('are named after their field', () => {
    expect(variableFor('kubernetes.pod_name', [])).toEqual({ name: 'kubernetes_pod_name', field: 'kubernetes.pod_name' });
    expect(variableFor('host', [HOST])).toEqual({ name: 'host_2', field: 'host' });
    expect(variableFor('1é', []).name).toBe('v_1');
  });
  it('are read from documents and links, or left out', () => {
    expect(readVariables([HOST, HOST, { name: 'a b', field: 'x' }, { name: 'a' }, 5, null])).toEqual([HOST]);
    expect(readVariables('x')).toEqual([]);
    const params = new URLSearchParams();
    writeChosen(params, { host: ['a', 'b'] });
    expect(chosenFrom(new URLSearchParams(`${params}&var-=x&var-a%20b=x&host=c`))).toEqual({ host: ['a', 'b'] });
  });
});

describe('ready dashboards', () => {
  it.each(READY.map((one) => [one.title, one] as const))('%s can be saved and read', (_, { dashboard }) => {
    expect(readDashboard(writeDashboard(dashboard))).toEqual(dashboard);
    for (const { query } of dashboard.panels) expect(withVariables(query, dashboard.variables, {})).not.toContain('$');
  });
});

describe('a dashboard of Grafana', () => {
  const grafana = {
    schemaVersion: 39,
    title: 'Shop',
    templating: { list: [
      { name: 'host', type: 'query', query: { field: 'hostname' } },
      { name: 'ds', type: 'datasource' },
      { name: 'interval', type: 'interval', query: '1m,5m' },
    ] },
    panels: [
      { type: 'timeseries', title: 'Errors', gridPos: { w: 12, h: 8 }, targets: [{ expr: 'error hostname:=$host | stats by (_time:5m) count() n' }] },
      { type: 'row', panels: [{ type: 'stat', title: 'Rate', gridPos: { w: 6, h: 4 }, targets: [{ expr: 'sum by (level) (count_over_time({app="shop"} |= "failed" [5m]))' }] }] },
      { type: 'text', title: 'Help', options: { content: '# Call us' } },
      { type: 'logs', title: 'Odd', targets: [{ expr: '{app="shop",host=~"$host"} | json | line_format "{{.x}}"' }] },
      { type: 'timeseries', title: 'Never', targets: [{ datasource: { type: 'loki' }, expr: 'variants(rate({a="b"}[1m])) of ({a="b"}[1m])' }] },
      { type: 'timeseries', title: 'Other', targets: [{ rawSql: 'select 1' }] },
      { type: 'news', title: 'Two', targets: [{ expr: 'a | stats count() n' }, { expr: 'b' }] },
    ],
  };

  it('is taken over as far as it can be, and what cannot is said', () => {
    expect(isGrafana(grafana)).toBe(true);
    expect(isGrafana({ title: 'a', panels: [] })).toBe(false);
    const { dashboard, notes } = importGrafana({ dashboard: grafana });
    expect(dashboard.variables).toEqual([HOST]);
    expect(dashboard.panels.map(({ title, query, text, width, options }) => [title, query || text, width, options.kind])).toEqual([
      ['Errors', 'error $host | stats by (_time:5m) count() n', 6, 'line'],
      ['Rate', '{app="shop"} *"failed"* | stats by (_time:5m, level) count() lines', 3, 'single'],
      ['Help', '# Call us', 6, null],
      ['Odd', '{app="shop",host=~"$host"} | json | line_format "{{.x}}"', 6, 'table'],
      ['Two', 'a | stats count() n', 6, null],
    ]);
    expect(notes.join('\n')).toMatch(/interval was left out[\s\S]*Never[\s\S]*cannot be answered[\s\S]*Other[\s\S]*has no query[\s\S]*Two[\s\S]*2 queries/);
    const read = readDashboard(writeDashboard(dashboard));
    expect('error' in read ? read.error : read.panels.length).toBe(5);
    expect('error' in read ? [] : read.panels.map(({ language }) => language ?? '')).toEqual(['', '', '', 'logql', '']);
  });

  const shown = (field: string, expr: string): [string, string] => {
    const value = { schemaVersion: 1, title: 'x', templating: { list: [{ name: 'x', query: { field } }] }, panels: [{ type: 'timeseries', title: 'p', targets: [{ expr }] }] };
    const { dashboard, notes } = importGrafana(value);
    return [dashboard.panels[0]?.query ?? '', notes.join(' ')];
  };
  it.each([
    ['a', '_stream:{a="$x"} error | stats count() n', '$x error | stats count() n'],
    ['a', '_stream:{a="$x",b="c, d"} | stats count() n', '_stream:{b="c, d"} $x | stats count() n'],
    ['a', '{b!="c",a=~"${x:regex}"} | stats count() n', '{b!="c"} $x | stats count() n'],
    ['app.kubernetes.io/name', '"app.kubernetes.io/name":=$x | stats count() n', '$x | stats count() n'],
    ['app.kubernetes.io/name', '"app.kubernetes.io/name":in($x) | stats count() n', '$x | stats count() n'],
    ['app/name', 'app/name:="$x" | stats count() n', '$x | stats count() n'],
    ['name', '"app/name" x | stats count() n', '"app/name" x | stats count() n'],
  ])('the variable of %s in %s', (field, expr, query) => expect(shown(field, expr)).toEqual([query, '']));
  it('what stays of a variable is said', () => {
    expect(shown('name', 'app/name:=$x | stats count() n')).toEqual(['app/name:=$x | stats count() n', expect.stringContaining('$x has no meaning')]);
    expect(shown('b', '_stream:{a="$x"} | stats count() n')).toEqual(['_stream:{a="$x"} | stats count() n', expect.stringContaining('$x has no meaning')]);
    expect(shown('a', '_stream:{a=~".*$x.*"} | stats count() n')[1]).toContain('$x has no meaning');
  });

  it('translates the simplest LogQL', () => {
    expect(fromLogQl('{app="a"}')).toBe('{app="a"}');
    expect(fromLogQl('{app="a"} |= `x` != "y"')).toBe('{app="a"} *"x"* NOT *"y"*');
    expect(fromLogQl('rate({app="a"}[1m])')).toBe('{app="a"} | stats by (_time:5m) count() lines');
    expect(fromLogQl('sum(rate({app="a"} |= "x" [1m])) by (host)')).toBe('{app="a"} *"x"* | stats by (_time:5m, host) count() lines');
    expect(fromLogQl('topk(5, rate({app="a"}[1m]))')).toBeNull();
    expect(fromLogQl('{app="a"} | json')).toBeNull();
  });

  it.each([null, 5, {}, { panels: 'x', schemaVersion: 1 }, { schemaVersion: 1, panels: [null, 5, { targets: 'x', gridPos: 7 }] }])('of broken parts is no accident: %j', (value) => {
    expect(importGrafana(value).dashboard.panels).toEqual([]);
  });
});
