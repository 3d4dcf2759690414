import { describe, expect, test } from 'vitest';
import { complete, completableAt, type Choice } from '../../src/lib/query/logsqlComplete';

describe('what can be completed', () => {
  test.each([
    ['host', { kind: 'field', typed: 'host', from: 0 }],
    ['error AND host', { kind: 'field', typed: 'host' }],
    ['-host', { kind: 'field', typed: 'host', from: 1 }],
    ['!host', { kind: 'field', typed: 'host', from: 1 }],
    ['(lev', { kind: 'field', typed: 'lev', from: 1 }],
    ['error ', { kind: 'field', typed: '', from: 6 }],
    ['level:', { kind: 'value', field: 'level', typed: '', from: 6 }],
    ['level:=', { kind: 'value', field: 'level', typed: '', from: 6 }],
    ['-level:er', { kind: 'value', field: 'level', typed: 'er', from: 7 }],
    ['x level:er', { kind: 'value', field: 'level', typed: 'er' }],
    ['level:="er', { kind: 'value', field: 'level', typed: 'er', from: 6, typedFrom: 8 }],
    ['"my field":v', { kind: 'value', field: 'my field', typed: 'v' }],
    ['level:in(', { kind: 'item', field: 'level', typed: '' }],
    ['level:in(error, "wa', { kind: 'item', field: 'level', typed: 'wa', from: 16, typedFrom: 17 }],
    ['error | st', { kind: 'pipe', typed: 'st' }],
    ['error |', { kind: 'pipe', typed: '', from: 7 }],
    ['error | stats ', { kind: 'function', typed: '' }],
    ['error | stats co', { kind: 'function', typed: 'co' }],
    ['error | stats by (ho', { kind: 'name', typed: 'ho', pipe: 'stats' }],
    ['error | stats by (host) a', { kind: 'function', typed: 'a' }],
    ['error | stats (host) a', { kind: 'function', typed: 'a' }],
    ['error | stats count() n, s', { kind: 'function', typed: 's' }],
    ['error | stats count(), sum(by', { kind: 'name', typed: 'by' }],
    ['error | count() n, s', { kind: 'function', typed: 's' }],
    ['error | stats count() if (lev', { kind: 'field', typed: 'lev' }],
    ['error | running_stats by (host) mov', { kind: 'function', typed: 'mov', pipe: 'running_stats' }],
    ['error | fields _ti', { kind: 'name', typed: '_ti', pipe: 'fields' }],
    ['error | sort by (_time) li', { kind: 'name', typed: 'li', pipe: 'sort' }],
    ['error | filter lev', { kind: 'field', typed: 'lev' }],
    ['user:in(path:admin | fi', { kind: 'pipe', typed: 'fi' }],
    ['user:in(path:admin | fields user) lev', { kind: 'field', typed: 'lev' }],
    ['error | join by (user) (app', { kind: 'field', typed: 'app' }],
  ])('%j', (query, expected) => expect(completableAt(query, query.length)).toMatchObject(expected));

  test.each(['level:>5', '"a phrase', 'level:~er', 'level:!=er', 'level:="error"', 'a # comment', 'f(x)', '| stats count() n', '| copy a as b', 'level:~"er', 'took:range(1, 2'])('nothing in %j', (query) => {
    const at = completableAt(query, query.length);
    // Within `range(…)` any value of the field can stand.
    if (query.includes('range')) expect(at?.kind).toBe('item');
    else expect(at).toBeNull();
  });
});

describe('a completion taken', () => {
  test.each<[string, number, string, Choice | undefined, string]>([
    ['lev', 3, 'level', undefined, 'level:^'],
    ['x lev | limit 1', 5, 'level', undefined, 'x level:^ | limit 1'],
    ['level:er', 8, 'error', undefined, 'level:="error" ^'],
    ['level:="er', 10, 'er"or', undefined, 'level:="er\\"or" ^'],
    ['level:in(er', 11, 'error', undefined, 'level:in("error"^'],
    ['error |st', 9, 'stats', undefined, 'error | stats ^'],
    ['| stats co', 10, 'count', undefined, '| stats count(^)'],
    ['| fields my', 11, 'my field', undefined, '| fields "my field"^'],
    ['| sort li', 9, 'limit', 'keyword', '| sort limit ^'],
    ['user:eq', 7, 'eq_field', 'filter', 'user:eq_field(^)'],
  ])('%j at %i takes %s', (query, caret, text, kind, expected) => {
    const at = completableAt(query, caret);
    expect(at).not.toBeNull();
    const done = complete(query, at!, text, kind);
    expect(`${done.query.slice(0, done.caret)}^${done.query.slice(done.caret)}`).toBe(expected);
  });
});
