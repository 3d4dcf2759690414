// docs/features.md names a test in a browser for each feature that the page has.

import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const E2E = new URL('../e2e/', import.meta.url);
const SOURCES = readdirSync(E2E).filter((file) => file.endsWith('.spec.ts')).map((file) => readFileSync(new URL(file, E2E), 'utf8'));
const ROWS = [...readFileSync(new URL('../../docs/features.md', import.meta.url), 'utf8').matchAll(/^\| ([^|]+) \| (have|partly|no) \| (.*) \|$/gm)].map(([, feature, state, rest]) => ({ feature: feature as string, state: state as string, rest: rest as string }));

/** The names of tests as they are written, those in templates with their `${…}`. */
const NAMES = new Set(SOURCES.flatMap((source) => [...source.matchAll(/\btest\(\s*(?:'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)"|`([^`]*)`)/g)].map(([, a, b, c]) => (a ?? b ?? c ?? '').replace(/\\(.)/g, '$1'))));

test('there are eighty features at least, each with a state', () => {
  expect(ROWS.length).toBeGreaterThanOrEqual(80);
  expect(new Set(ROWS.map(({ feature }) => feature)).size).toBe(ROWS.length);
});

test.each(ROWS.filter(({ state }) => state === 'have'))('$feature: its test exists', ({ rest }) => {
  const name = /^`(.+)`$/.exec(rest)?.[1] ?? rest;
  expect(NAMES.has(name), name).toBe(true);
});
