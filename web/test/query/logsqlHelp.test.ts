import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { documentation, helpFile } from '../../dev/help';
import { FILTER_FUNCTIONS, FUNCTIONS, helpOn, keywordsOf, PIPES, SERIES_FUNCTIONS } from '../../src/lib/query/logsqlHelp';

function source(path: string): string {
  return readFileSync(new URL(`../../../crates/query/src/lang/${path}`, import.meta.url), 'utf8');
}

test('help has every pipe and function of the server, in its words', () => {
  const { pipes, functions, entries } = documentation();
  expect(pipes.length + functions.length).toBe(entries);
  expect(readFileSync(new URL('../../src/lib/query/logsqlHelp.json', import.meta.url), 'utf8'), 'run: npm run help').toBe(helpFile());
  // Each entry of the tables of the server is documented.
  const registered = (path: string): number => [...source(path).matchAll(/^ {4}&[a-z_]+::[A-Z_0-9]+,$/gm)].length;
  expect(PIPES.length).toBe(registered('pipe.rs'));
  expect(FUNCTIONS.length).toBe(registered('pipe/stats.rs'));
});

test('help has every filter that is written as a function', () => {
  const text = source('filter/value.rs');
  const table = text.slice(text.indexOf('pub(super) fn function('), text.indexOf('_ => return None'));
  const names = [...table.matchAll(/"([a-z0-9_]+)"/g)].map(([, name]) => name as string);
  expect(names.length).toBeGreaterThan(20);
  expect(FILTER_FUNCTIONS.map(({ name }) => name).sort()).toEqual(names.sort());
});

test('help has every function of a series', () => {
  const text = source('pipe/stats/series.rs');
  const names = [...text.matchAll(/_NAMES: \[&str; \d+\] = \[([^\]]*)\]/g)].flatMap(([, list]) => [...(list as string).matchAll(/"([a-z_]+)"/g)].map(([, name]) => name as string));
  const known = [...SERIES_FUNCTIONS, ...FUNCTIONS].map(({ name }) => name);
  expect(names).toContain('share');
  expect(names.filter((name) => !known.includes(name))).toEqual([]);
});

test('each entry says what it is with an example', () => {
  for (const entry of [...PIPES, ...FUNCTIONS, ...FILTER_FUNCTIONS, ...SERIES_FUNCTIONS]) {
    expect(entry.summary.length, entry.name).toBeGreaterThan(3);
    expect(entry.example, entry.name).toContain(entry.name);
    expect(entry.syntax, entry.name).toContain(entry.name);
  }
  expect(helpOn('pipe', 'WHERE')?.name).toBe('filter');
  expect(keywordsOf(helpOn('pipe', 'sort')!)).toEqual(['by', 'desc', 'partition', 'offset', 'limit', 'rank', 'as']);
});
