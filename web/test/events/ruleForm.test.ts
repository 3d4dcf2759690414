import { describe, expect, it } from 'vitest';
import { firingsOf, formProblem, isTold, labelsFor, ruleFormOf, ruleText } from '../../src/lib/events/ruleForm';

const FORM = ruleFormOf('_type:="access" | stats by (_time:1m, hostname) count() lines | sort by (lines desc)');
const matcher = (name: string, value: string, isRegex = false, isEqual = true) => ({ name, value, isRegex, isEqual });

describe('a rule by choices', () => {
  it('begins with a query, and is a text', () => {
    expect(FORM).toMatchObject({ query: '_type:="access"\n| stats by (hostname) count() lines', value: 'lines', by: ['hostname'], threshold: 0, interval: '1m' });
    const text = ruleText({ ...FORM, name: 'TooMany', operator: '<', threshold: 12.5, forText: '5m', labels: { severity: 'page', team: 'web shop' }, example: 'a "b": {{ c' });
    expect(text).toContain('- alert: TooMany\n');
    expect(text).toContain('          | filter lines:<12.5\n');
    expect(text).toContain('        for: 5m\n        labels:\n          severity: page\n          team: "web shop"\n        annotations:\n');
    // A text of a line is data, also where it looks like YAML or like a template.
    expect(text).toContain('          example: "a \\"b\\": {{ \\"{{\\" }} c"\n');
    expect(ruleText({ ...FORM, labels: {}, name: 'yes' })).toContain('- alert: "yes"\n');
    expect(ruleText({ ...FORM, labels: {} })).not.toContain('labels:\n');
  });

  it('says what is wrong with a choice', () => {
    expect(formProblem(FORM)).toBeNull();
    for (const wrong of [{ name: ' ' }, { threshold: NaN }, { interval: 'x' }, { interval: '0s' }, { forText: '' }]) expect(formProblem({ ...FORM, ...wrong })).not.toBeNull();
  });

  it('would have fired where the numbers were beyond the bound for long enough', () => {
    const values = [1, 9, 9, 9, null, 9, 1, 9, 9];
    const bound = { operator: '>', threshold: 5, forText: '0s' } as const;
    expect(firingsOf(values, 60_000, bound)).toEqual([{ from: 1, to: 3 }, { from: 5, to: 5 }, { from: 7, to: 8 }]);
    expect(firingsOf(values, 60_000, { ...bound, forText: '2m' })).toEqual([{ from: 3, to: 3 }]);
    expect(firingsOf(values, 60_000, { ...bound, operator: '<' })).toEqual([{ from: 0, to: 0 }, { from: 6, to: 6 }]);
    expect(firingsOf([], 60_000, bound)).toEqual([]);
  });
});

describe('who is told', () => {
  it('follows from the labels', () => {
    const labels = { severity: 'warning' };
    expect(isTold({}, labels)).toBe(true);
    expect(isTold({ matchers: [matcher('severity', 'page')] }, labels)).toBe(false);
    expect(isTold({ matchers: [matcher('severity', 'page', false, false)] }, labels)).toBe(true);
    expect(isTold({ matchers: [matcher('host', 'web.*', true)] }, labels)).toBeNull();
    expect(isTold({ matchers: [matcher('host', 'web.*', true), matcher('team', 'x')] }, labels)).toBe(false);
  });

  it('is chosen by giving the alert its labels', () => {
    expect(labelsFor({ matchers: [matcher('severity', 'page'), matcher('team', 'web')] }, { severity: 'warning' })).toEqual({ severity: 'page', team: 'web' });
    expect(labelsFor({ matchers: [matcher('severity', 'warning', false, false)] }, { severity: 'warning' })).toBeNull();
  });
});
