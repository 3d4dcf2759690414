import { describe, expect, test } from 'vitest';
import { ACKNOWLEDGED, acknowledgement, activeAlerts, fileProblem, marksOf, matchersFor, matchersText, openSilences, parseMatchers, placedRules, ruleFor, statesKey, STRIPS_MAX, stripsOf, testText } from '../../src/lib/events/alerts';
import type { AlertChange, AlertState, Rule, RuleGroup } from '../../src/lib/api/alerts';

const rule = (name: string, more: Partial<Rule> = {}): Rule => ({ id: name, type: 'alerting', name, query: 'x', ...more });

test('firing rules come first, then failing and pending ones', () => {
  const groups: RuleGroup[] = [
    { name: 'g', file: 'a.yml', interval: 60, rules: [rule('quiet', { state: 'inactive' }), rule('waits', { state: 'pending' })] },
    { name: 'h', file: 'b.yml', interval: 60, rules: [rule('broken', { state: 'inactive', lastError: 'too slow' }), rule('fires', { state: 'firing' }), rule('records', { type: 'recording' })] },
  ];
  expect(placedRules(groups).map(({ rule: { name } }) => name)).toEqual(['fires', 'broken', 'waits', 'quiet', 'records']);
});

test('alerts that ended are not active; the oldest firing one is first', () => {
  const alert = (state: AlertState, activeAt: string) => ({ labels: {}, annotations: {}, state, activeAt, value: 1 });
  const all = [alert('pending', '2026-01-01T00:00:00Z'), alert('firing', '2026-01-01T02:00:00Z'), alert('inactive', '2026-01-01T00:00:00Z'), alert('firing', '2026-01-01T01:00:00Z')];
  expect(activeAlerts(rule('a', { alerts: all })).map(({ state, activeAt }) => state + activeAt.slice(12, 13))).toEqual(['firing1', 'firing2', 'pending0']);
});

test('what happened is asked for again when a state changes, not when a value does', () => {
  const key = (state: AlertState, value: number): string =>
    statesKey(placedRules([{ name: 'g', file: 'a.yml', interval: 60, rules: [rule('A', { alerts: [{ labels: { host: 'a' }, annotations: {}, state, activeAt: '2026-01-01T00:00:00Z', value }] })] }]));
  expect(key('firing', 1)).toBe(key('firing', 2));
  expect(key('firing', 1)).not.toBe(key('pending', 1));
});

test('a silence matches a rule, or one alert of it', () => {
  const [placed] = placedRules([{ name: 'g', file: 'a.yml', interval: 60, rules: [rule('A')] }]);
  expect(matchersText(matchersFor(placed!, null))).toBe('alertname="A", alertgroup="g"');
  expect(matchersText(matchersFor(placed!, { alertname: 'A', host: 'a"b' }))).toBe('alertname="A", alertgroup="g", host="a\\"b"');
  expect(matchersText([{ name: 'a', value: 'b', isRegex: true, isEqual: false }])).toBe('a!~"b"');
  const silence = (endsAt: string) => ({ id: endsAt, matchers: [], startsAt: '', endsAt, createdBy: '', comment: '' });
  const open = openSilences([silence('2026-01-03T00:00:00Z'), silence('2026-01-01T00:00:00Z'), silence('2026-01-02T00:00:00Z')], Date.parse('2026-01-01T12:00:00Z'));
  expect(open.map(({ id }) => id.slice(8, 10))).toEqual(['02', '03']);
});

describe('strips', () => {
  const change = (minute: number, from: AlertState, to: AlertState, host = 'a'): AlertChange => ({
    time: new Date(minute * 60_000).toISOString(), rule: 'R', group: 'g', labels: { alertname: 'R', host }, from, to, value: 1, annotations: {},
  });
  const span = { startMs: 0, endMs: 10 * 60_000 };

  test('show the runs of states, before the first change and after the last one', () => {
    const { strips, left } = stripsOf([change(5, 'firing', 'inactive'), change(1, 'inactive', 'pending'), change(2, 'pending', 'firing'), change(3, 'firing', 'inactive', 'b')], span);
    expect(left).toBe(0);
    expect(strips).toEqual([
      { label: 'host=a', parts: [{ state: 'pending', from: 0.1, to: 0.2 }, { state: 'firing', from: 0.2, to: 0.5 }] },
      { label: 'host=b', parts: [{ state: 'firing', from: 0, to: 0.3 }] },
    ]);
    expect(stripsOf([change(8, 'pending', 'firing')], span).strips[0]?.parts).toEqual([{ state: 'pending', from: 0, to: 0.8 }, { state: 'firing', from: 0.8, to: 1 }]);
    expect(stripsOf([], span)).toEqual({ strips: [], left: 0 });
  });

  test('are bounded', () => {
    const many = Array.from({ length: STRIPS_MAX + 5 }, (_, at) => change(1, 'inactive', 'firing', `h${at}`));
    expect(stripsOf(many, span)).toMatchObject({ left: 5 });
    expect(stripsOf(many, span).strips).toHaveLength(STRIPS_MAX);
  });

  test('marks stand where alerts begin to fire and end', () => {
    expect(marksOf([change(1, 'inactive', 'pending'), change(2, 'pending', 'firing'), change(5, 'firing', 'inactive')]).map(({ ms, text, tone }) => `${ms / 60_000} ${tone} ${text}`)).toEqual(['2 bad R (host=a) fires', '5 good R (host=a) has ended']);
    expect(testText([change(2, 'pending', 'firing')])).toBe('It would have fired once.');
    expect(testText([change(2, 'inactive', 'pending')])).toContain('pending');
    expect(testText([])).toBe('It would not have fired.');
  });
});

describe('rule files', () => {
  test('have names that are names of files', () => {
    expect(fileProblem('web.yml', [])).toBeNull();
    for (const wrong of ['', 'web', '../x.yml', 'a b.yml', '.yml', 'ä.yml']) expect(fileProblem(wrong, []), wrong).not.toBeNull();
    expect(fileProblem('web.yml', ['web.yml'])).toContain('already');
  });

  test('a rule is made of a query: without buckets of time and without order', () => {
    const text = ruleFor('_type:="access" status:>=500 # why\n| stats by (_time:1m, path) count() "all lines", max(took) m | sort by (m desc)');
    expect(text).toContain('interval: 1m\n');
    expect(text).toContain('expr: |\n          _type:="access" status:>=500\n          | stats by (path) count() "all lines", max(took) m\n          | filter "all lines":>0\n');
    expect(text).toContain('{{ $labels.path }} {{ $value }}');
  });

  test('a rule is made of lines, and of nothing', () => {
    expect(ruleFor('disk')).toContain('disk\n          | stats by (hostname) count() n\n          | filter n:>0');
    expect(ruleFor('')).toContain('error\n');
    expect(ruleFor('* | stats count()')).toContain('filter "count(*)":>0');
  });
});

test.each([
  ['host="web1"', 'host="web1"'],
  [' host =~ "web.*" , severity!=info ', 'host=~"web.*", severity!="info"'],
  ['a!~"x\\"y, z"', 'a!~"x\\"y, z"'],
  ['', null],
  ['host', null],
  ['host="web1" x', null],
  ['host="a', null],
])('%j as matchers', (text, written) => {
  const found = parseMatchers(text);
  expect(found && matchersText(found)).toBe(written);
});

test('who acknowledged an alert', () => {
  const placed = { key: '', group: 'web', file: '', rule: { id: '', type: 'alerting' as const, name: 'Errors', query: '' }, state: 'firing' as const, error: '' };
  const now = Date.parse('2026-01-01T12:00:00Z');
  const silence = (labels: Record<string, string> | null, comment: string, endsAt = '2026-01-01T13:00:00Z') => ({ id: comment, matchers: matchersFor(placed, labels), startsAt: '2026-01-01T11:00:00Z', endsAt, createdBy: 'ann', comment });
  const found = (all: ReturnType<typeof silence>[]) => acknowledgement(placed, { host: 'web1' }, all, now)?.id ?? null;
  expect(found([silence({ host: 'web1' }, 'Silenced'), silence({ host: 'web2' }, `${ACKNOWLEDGED} 2`), silence({ host: 'web1' }, `${ACKNOWLEDGED} old`, '2026-01-01T11:30:00Z')])).toBeNull();
  expect(found([silence({ host: 'web1' }, `${ACKNOWLEDGED} 1`)])).toBe(`${ACKNOWLEDGED} 1`);
  expect(found([silence(null, `${ACKNOWLEDGED} all`)])).toBe(`${ACKNOWLEDGED} all`);
});
