// The folders of src/lib have an order, which README.md writes down: a file imports from its own
// folder and from those before it. So there is no circle of folders; a second test looks for
// circles of files.

import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOMS = ['base', 'query', 'chart', 'api', 'lines', 'events', 'programs', 'state'];

const LIB = fileURLToPath(new URL('../src/lib', import.meta.url));
const IMPORT = /(?:from|import\()\s*'(\.[^']+)'/g;

/** Each file of src/lib and the files that it imports, as paths from there. */
const imports = new Map<string, string[]>(
  readdirSync(LIB, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => [file, [...readFileSync(join(LIB, file), 'utf8').matchAll(IMPORT)].map(([, path]) => imported(file, path as string))]),
);

function imported(from: string, path: string): string {
  const to = relative(LIB, normalize(join(LIB, dirname(from), path)));
  return /\.(ts|json)$/.test(to) ? to : `${to}.ts`;
}

const roomOf = (file: string): number => ROOMS.indexOf(file.split('/')[0] as string);

test('every file stands in a room, and README.md names the rooms in their order', () => {
  expect(imports.size).toBeGreaterThan(60);
  expect([...imports.keys()].filter((file) => roomOf(file) < 0)).toEqual([]);
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
  expect([...readme.matchAll(/^\| `src\/lib\/(\w+)\/`/gm)].map(([, room]) => room)).toEqual(ROOMS);
});

test('files import only from their room and from the rooms before it', () => {
  const wrong = [...imports].flatMap(([from, all]) => all.filter((to) => roomOf(to) < 0 || roomOf(to) > roomOf(from)).map((to) => `${from} → ${to}`));
  expect(wrong).toEqual([]);
});

test('no circle of files', () => {
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) throw new Error([...path.slice(path.indexOf(file)), file].join(' → '));
    if (done.has(file)) return;
    for (const next of imports.get(file) ?? []) visit(next, [...path, file]);
    done.add(file);
  };
  for (const file of imports.keys()) visit(file, []);
});
