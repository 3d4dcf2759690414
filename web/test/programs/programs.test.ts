import { afterEach, describe, expect, test, vi } from 'vitest';
import { lagMs, linesQuery, linesQueryOfText, nameProblem, ProgramRates, seriesQuery, toneOf } from '../../src/lib/programs/programs';
import { byLine, EXAMPLES, lineRange, marksOf, sampleLines, sampleText, settingsOf, withoutComments } from '../../src/lib/programs/programText';
import { keptProgram, type ProgramState, type TestReport } from '../../src/lib/api/programs';

afterEach(() => vi.unstubAllGlobals());

test.each([
  ['access-status', null],
  ['a.B_c-9', null],
  ['a'.repeat(64), null],
  ['', 'needs a name'],
  ['a'.repeat(65), '1 to 64'],
  ['.hidden', '1 to 64'],
  ['a b', '1 to 64'],
  ['../x', '1 to 64'],
  ['test', 'cannot be'],
  ['reload', 'cannot be'],
  ['taken', 'already'],
])('name %s', (name, problem) => {
  const found = nameProblem(name, ['taken']);
  if (problem === null) expect(found).toBeNull();
  else expect(found).toContain(problem);
});

test('a state of a newer server has a tone', () => expect(toneOf('dreaming' as ProgramState)).toBe('idle'));

test('a disabled program has no lag', () => {
  expect(lagMs({ lag_s: 2, enabled: true })).toBe(2000);
  expect(lagMs({ lag_s: 2, enabled: false })).toBeNull();
  expect(lagMs({ lag_s: 0, enabled: true })).toBeNull();
});

describe('rates', () => {
  const at = (lines_total: number, rows_total: number) => [{ name: 'a', lines_total, rows_total }];
  test('are differences of two polls', () => {
    const rates = new ProgramRates();
    rates.measure(at(100, 10), 1000);
    expect(rates.rates.size).toBe(0);
    rates.measure(at(300, 11), 3000);
    expect(rates.rates.get('a')).toEqual({ lines: 100, rows: 0.5 });
  });
  test('a poll too early changes nothing, and its counters count later', () => {
    const rates = new ProgramRates();
    rates.measure(at(0, 0), 0);
    rates.measure(at(50, 0), 400);
    expect(rates.rates.size).toBe(0);
    rates.measure(at(100, 0), 1000);
    expect(rates.rates.get('a')?.lines).toBe(100);
  });
  test('a restart of the server makes no negative rate', () => {
    const rates = new ProgramRates();
    rates.measure(at(100, 10), 0);
    rates.measure(at(5, 0), 1000);
    expect(rates.rates.get('a')).toBeUndefined();
    rates.measure(at(15, 0), 2000);
    expect(rates.rates.get('a')?.lines).toBe(10);
  });
});

describe('the lines of a program', () => {
  test.each([
    [{ language: 'awk', type: 'access', filter: null }, '', '_type:="access"'],
    [{ language: 'awk', type: null, filter: 'app_name:sshd' }, '', 'app_name:sshd'],
    [{ language: 'awk', type: 'x', filter: 'a or b' }, '', '_type:="x" (a or b)'],
    [{ language: 'awk', type: 'a"b', filter: '' }, '', '_type:="a\\"b"'],
    [{ language: 'awk', type: null, filter: null }, '', '*'],
    [{ language: 'logsql', type: null, filter: null }, '# bucket: 10s\n_type:access error | stats count()', '_type:access error'],
    [{ language: 'logsql', type: 'access', filter: null }, '# type: access\n* | stats count()', '_type:="access"'],
  ] as const)('%j', (of, text, query) => expect(linesQuery(of, text)).toBe(query));

  test('of a text that is being written', () => {
    expect(linesQueryOfText('awk', '# type: access\n# filter: status:500\n{ n++ }\n# type: other')).toBe('_type:="access" status:500');
    expect(linesQueryOfText('logsql', '_type:x | stats count() n')).toBe('_type:x');
  });
});

describe('the text', () => {
  test('settings stand in comments before the code', () => {
    const text = '#!/usr/bin/awk -f\n# Counts.\n# type: access\n\n#filter:  a:b \n# Note: x\n{ n++ }\n# bucket: 5m\n';
    expect([...settingsOf(text)]).toEqual([['type', 'access'], ['filter', 'a:b']]);
  });

  test('every example says which lines it reads, and has a name', () => {
    expect(EXAMPLES.length).toBeGreaterThanOrEqual(4);
    for (const { name, language, text } of EXAMPLES) {
      expect(nameProblem(name, [])).toBeNull();
      expect(linesQueryOfText(language, text)).not.toBe('*');
      expect(withoutComments(text)).not.toBe('');
    }
  });

  test('sample lines stay lines', () => {
    expect(sampleText(['a', 'b\nc', 'd\r\ne'])).toBe('a\nb\\nc\nd\\ne');
    expect(sampleLines('a\n\nb\n')).toEqual(['a', '', 'b']);
    expect(sampleLines('')).toEqual([]);
  });

  test('the range of a line', () => {
    const text = 'ab\n\ncd';
    expect([1, 2, 3, 4].map((line) => lineRange(text, line))).toEqual([{ from: 0, to: 2 }, { from: 3, to: 3 }, { from: 4, to: 6 }, null]);
  });

  test('faults are shown at their lines', () => {
    const report = {
      faults: [
        { program_line: 3, input_line: null, message: 'one' },
        { program_line: 3, input_line: 2, message: 'two' },
        { program_line: null, input_line: null, message: 'no line' },
      ],
    } as unknown as TestReport;
    const marks = marksOf(report);
    expect([...byLine(marks, (mark) => mark.programLine)]).toEqual([[3, 'one\ntwo']]);
    expect([...byLine(marks, (mark) => mark.inputLine)]).toEqual([[2, 'two']]);
  });
});

test.each([
  ['sum', '_type:summary program:="my status" | stats by (_time:60s, host) sum(lines) lines'],
  ['percentiles', '_type:summary program:="my status" | stats by (_time:60s, host) quantile(0.5, lines) p50, quantile(0.9, lines) p90, quantile(0.99, lines) p99'],
  ['moving', '_type:summary program:="my status" | stats by (_time:60s, host) sum(lines) lines | sort by (_time) | running_stats by (host) moving_avg(lines, 1h) mean'],
  ['derivative', '_type:summary program:="my status" | stats by (_time:60s, host) sum(lines) lines | sort by (_time) | running_stats by (host) derivative(lines) per_second'],
] as const)('the %s of rows as a panel', (way, query) => expect(seriesQuery('my status', 'lines', 'host', 60_000, way)).toBe(query));

test('rows without a split', () => expect(seriesQuery('a', 'n', null, 1000, 'average')).toBe('_type:summary program:="a" | stats by (_time:1s) avg(n) mean'));

test('a program that is not there any more has no text', async () => {
  let answer = (): Response => Response.json({ error: 'no such program' }, { status: 404 });
  vi.stubGlobal('fetch', () => Promise.resolve(answer()));
  expect(await keptProgram('a')).toBeNull();
  answer = () => Response.json({ name: 'a', text: 'END { }' });
  expect(await keptProgram('a')).toBe('END { }');
  answer = () => Response.json({ error: 'the server starts' }, { status: 503 });
  await expect(keptProgram('a')).rejects.toThrow('the server starts');
});
