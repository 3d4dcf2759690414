// The documentation of pipes and stats functions, read from the Rust sources of the crate `query`,
// in which each pipe and function documents itself. `npm run help` writes it to
// src/lib/query/logsqlHelp.json; test/query/logsqlHelp.test.ts compares the two.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface Documented {
  name: string;
  aliases: string[];
  syntax: string;
  summary: string;
  example: string;
}

const SOURCES = fileURLToPath(new URL('../../crates/query/src/lang/pipe', import.meta.url));
const TARGET = fileURLToPath(new URL('../src/lib/query/logsqlHelp.json', import.meta.url));

/**
 * A string literal of Rust; escapes of quotes and backslashes, and lines that go on behind a
 * backslash.
 */
const LITERAL = String.raw`"((?:[^"\\]|\\[\s\S])*)"`;
const ENTRY = new RegExp(
  String.raw`static \w+: (\w+)(?:(?!\bstatic )[\s\S])*?Documentation \{\s*name: ${LITERAL},\s*aliases: &\[([^\]]*)\],\s*syntax: ${LITERAL},\s*summary: ${LITERAL},\s*example: ${LITERAL},\s*\}`,
  'g',
);

function text(literal: string): string {
  return literal.replace(/\\\n\s*/g, '').replace(/\\(["\\])/g, '$1');
}

function documentedIn(source: string): { type: string; entry: Documented }[] {
  return [...source.matchAll(ENTRY)].map((found) => {
    const [, type = '', name = '', aliases = '', syntax = '', summary = '', example = ''] = found;
    const names = [...aliases.matchAll(new RegExp(LITERAL, 'g'))].map((alias) => alias[1] as string);
    return { type, entry: { name, aliases: names, syntax: text(syntax), summary: text(summary), example: text(example) } };
  });
}

/** All pipes and functions, by name, and how many entries the sources have. */
export function documentation(): { pipes: Documented[]; functions: Documented[]; entries: number } {
  const files = [SOURCES, join(SOURCES, 'stats')].flatMap((folder) =>
    readdirSync(folder).filter((name) => name.endsWith('.rs') && !name.includes('tests')).map((name) => readFileSync(join(folder, name), 'utf8')),
  );
  const found = files.flatMap(documentedIn);
  const entries = files.reduce((sum, source) => sum + (source.match(/\bDocumentation \{\s*name:/g)?.length ?? 0), 0);
  const byName = (a: Documented, b: Documented): number => (a.name < b.name ? -1 : 1);
  const of = (isPipe: boolean): Documented[] => found.filter(({ type }) => (type === 'Registration') === isPipe).map(({ entry }) => entry).sort(byName);
  return { pipes: of(true), functions: of(false), entries };
}

/** The text of src/lib/query/logsqlHelp.json. */
export function helpFile(): string {
  const { pipes, functions } = documentation();
  return `${JSON.stringify({ pipes, functions }, null, 1)}\n`;
}

export function writeHelp(): void {
  writeFileSync(TARGET, helpFile());
}
