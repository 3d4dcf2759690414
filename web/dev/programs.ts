// Programs of the stand-in for the server: AWK of this machine runs them, without a sandbox, and counting by one field
// is all of LogsQL. Rows are computed when they are asked for, from the lines of that time.

import { spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { splitQuery } from '../src/lib/query/logsql.ts';
import { settingsOf, withoutComments } from '../src/lib/programs/programText.ts';
import type { DryRun, Fields, Language, Program, ProgramRow, RejectedLine, TestReport } from '../src/lib/api/programs.ts';
import { parseDuration } from '../src/lib/base/time.ts';
import type { Corpus, Line, Stored } from './corpus.ts';
import { compile } from './match.ts';

interface Saved {
  language: Language;
  text: string;
  enabled: boolean;
  sinceMs: number;
  runs: { id: string; start: string; end: string; at: string }[];
  /** The interval of the last rerun, and the text that it ran. */
  rerun: { startMs: number; endMs: number; text: string } | null;
}

/** A text that is no program. */
export class WrongProgram extends Error {
  constructor(message: string, readonly line: number) {
    super(message);
  }
}

const AWK = 'awk';
let inputFile: string | undefined;
const KEYS = ['type', 'filter', 'mode', 'bucket', 'fields', 'timeout', 'gawk-sandbox'];
const escaped = (value: string): string => value.replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n');

interface Settings {
  type: string | null;
  filter: string | null;
  bucketMs: number;
  fields: string[] | null;
}

function settings(language: Language, text: string): Settings {
  const found = settingsOf(text);
  for (const key of found.keys()) {
    if (KEYS.includes(key)) continue;
    throw new WrongProgram(`there is no setting ${key}; there are ${KEYS.join(', ')}`, text.split('\n').findIndex((line) => line.includes(`${key}:`)) + 1);
  }
  if (language === 'awk' && !found.has('type') && !found.has('filter')) throw new WrongProgram('the program does not say which lines it is for; add a comment such as `# type: access`', 1);
  if (withoutComments(text) === '') throw new WrongProgram('there is no program behind the comments', text.split('\n').length);
  const bucketMs = parseDuration(found.get('bucket') ?? '10s') ?? 10_000;
  const fields = found.get('fields')?.split(/\s+/) ?? null;
  return { type: found.get('type') ?? null, filter: found.get('filter') ?? null, bucketMs, fields };
}

function matching(language: Language, text: string, of: Settings): (line: Line) => boolean {
  const filter = language === 'logsql' ? splitQuery(withoutComments(text)).filter : (of.filter ?? '*');
  const test = compile(filter.replace(/(\w+):in\(([^)]*)\)/g, (_all, field: string, list: string) => `(${list.split(',').map((value) => `${field}:=${JSON.stringify(value.trim())}`).join(' or ')})`));
  return (line) => (of.type === null || line['_type'] === of.type) && test(line);
}

function toRow(text: string): Fields | string {
  try {
    if (text.startsWith('{')) return JSON.parse(text) as Fields;
  } catch (error) {
    return String(error);
  }
  const row: Fields = {};
  let rest = text.trim();
  while (rest !== '') {
    const pair = /^([A-Za-z_][\w.]*)=(?:"((?:[^"\\]|\\.)*)"|(\S+))\s*/.exec(rest);
    if (!pair) return `there is no name=value at \`${rest.slice(0, 20)}\``;
    const [all, name, quoted, bare] = pair;
    row[name as string] = quoted !== undefined ? quoted.replace(/\\(.)/g, '$1') : Number.isNaN(Number(bare)) ? (bare as string) : Number(bare);
    rest = rest.slice(all.length);
  }
  return row;
}

interface Output {
  rows: Fields[];
  rejected: RejectedLine[];
  stderr: string;
  ok: boolean;
}

function run(language: Language, text: string, of: Settings, lines: readonly Line[]): Output {
  if (language === 'logsql') {
    const by = /^\|\s*stats by \((\w+)\) count\(\)(?: as)?\s*(\w+)?/.exec(splitQuery(withoutComments(text)).pipes);
    if (!by) throw new WrongProgram('only `| stats by (FIELD) count() NAME` runs here', text.split('\n').findIndex((line) => line.includes('|')) + 1);
    const counts = new Map<string, number>();
    for (const line of lines) counts.set(line[by[1] as string] ?? '', (counts.get(line[by[1] as string] ?? '') ?? 0) + 1);
    return { rows: [...counts].map(([value, count]) => ({ [by[1] as string]: value, [by[2] ?? 'count(*)']: count })), rejected: [], stderr: '', ok: true };
  }
  const value = (line: Line, name: string): string => (name === 'bytes' ? (line['response_bytes'] ?? '') : (line[name] ?? ''));
  const input = of.fields === null ? lines.map((line) => (line['_line'] ?? '').replaceAll('\n', '\\n')) : [of.fields.join('\t'), ...lines.map((line) => (of.fields as string[]).map((name) => escaped(value(line, name))).join('\t'))];
  // A file instead of a pipe: a program with a mistake ends without reading, and a broken pipe would hide its words.
  const file = (inputFile ??= join(mkdtempSync(join(tmpdir(), 'loginson-mock-')), 'input'));
  writeFileSync(file, input.map((line) => `${line}\n`).join(''));
  const stdin = openSync(file, 'r');
  const done = spawnSync(AWK, [...(of.fields === null ? [] : ['-F', '\t']), '--', text], { stdio: [stdin, 'pipe', 'pipe'], encoding: 'utf8', timeout: 5000 });
  closeSync(stdin);
  const output: Output = { rows: [], rejected: [], stderr: done.error ? `${AWK}: ${done.error.message}` : done.stderr, ok: done.status === 0 };
  if (!output.ok) return output;
  done.stdout.split('\n').forEach((printed, index) => {
    if (printed.trim() === '') return;
    const row = toRow(printed);
    if (typeof row === 'string') output.rejected.push({ line: index + 1, text: printed, reason: row });
    else output.rows.push(row);
  });
  return output;
}

export class MockPrograms {
  #saved = new Map<string, Saved>();
  #corpus: Corpus;

  constructor(corpus: Corpus) {
    this.#corpus = corpus;
  }

  list(): unknown {
    const awk = spawnSync(AWK, ['BEGIN { exit }']).error === undefined;
    const programs = [...this.#saved.keys()].sort().map((name) => this.describe(name));
    return { interpreter: awk ? { kind: AWK, path: `/usr/bin/${AWK}` } : null, ...(awk ? {} : { interpreter_error: 'no AWK was found; install gawk' }), folder: 'programs', programs };
  }

  describe(name: string): Program & { text: string } {
    const saved = this.#find(name);
    const of = settings(saved.language, saved.text);
    const lines = this.#lines(saved.language, saved.text, saved.sinceMs, Date.now());
    const last = lines.length > 0 ? run(saved.language, saved.text, of, lines.slice(-200).map((one) => one.line)) : null;
    const failed = last !== null && !last.ok;
    const now = new Date().toISOString();
    return {
      name, language: saved.language, type: of.type, filter: of.filter, bucket_s: of.bucketMs / 1000, fields: of.fields, enabled: saved.enabled,
      state: !saved.enabled ? 'disabled' : failed ? 'failing' : lines.length > 0 ? 'running' : 'waiting', problem: null, warnings: [], lag_s: saved.enabled ? 0.4 : 0, buckets_waiting: 0,
      lines_total: lines.length, rows_total: last?.rows.length ?? 0, buckets_total: lines.length > 0 ? 1 : 0, failures_total: failed ? 1 : 0, rejected_total: last?.rejected.length ?? 0,
      last_run: now, last_error: failed ? { time: now, bucket: now, message: 'the program ended with an error', stderr: last.stderr } : null, last_rejected: last?.rejected ?? [],
      sandbox: [{ what: 'files', part: 'none', note: 'the stand-in has no sandbox' }], text: saved.text,
    };
  }

  save(name: string, language: Language, text: string): void {
    settings(language, text);
    const old = this.#saved.get(name);
    this.#saved.set(name, { runs: [], rerun: null, enabled: true, ...old, language, text, sinceMs: Math.min(old?.sinceMs ?? Infinity, Date.now() - 60_000) });
  }

  remove(name: string): void {
    this.#find(name);
    this.#saved.delete(name);
  }

  switch(name: string, enabled: boolean): void {
    this.#find(name).enabled = enabled;
  }

  /** Sample lines are lines of the corpus again, as far as they are in it; others have only their text. */
  test(language: Language, text: string, sample: readonly string[]): TestReport {
    const of = settings(language, text);
    const known = new Map(this.#corpus.lines.map(({ line }) => [line['_line'], line]));
    const lines = sample.map((raw) => known.get(raw) ?? ({ _line: raw, _msg: raw, ...(of.type === null ? {} : { _type: of.type }) } as unknown as Line));
    const read = lines.filter(matching(language, text, of));
    const output = run(language, text, of, read);
    const number = (word: string, pattern: RegExp): number | null => (pattern.exec(word) ? Number(pattern.exec(word)?.[1]) : null);
    const faults = output.stderr.split('\n').filter((line) => line.trim() !== '').map((message) => ({ program_line: number(message, /(?:line:|line )(\d+)/), input_line: number(message, /FNR=(\d+)/), message }));
    return {
      rows: output.rows, rejected: output.rejected, rejected_total: output.rejected.length, error: output.ok ? null : 'The program ended with an error.', faults,
      warnings: language === 'awk' && !text.includes('END') ? ['a program per bucket usually prints its rows in END; this one has no END'] : [],
      lines: sample.length, lines_matching: read.length, cpu_ms: 1.2, interpreter: language === 'awk' ? AWK : null,
    };
  }

  rows(name: string, startMs: number, endMs: number, text?: string): ProgramRow[] {
    const saved = this.#find(name);
    const { bucketMs } = settings(saved.language, saved.text);
    const over = Math.min(endMs, Math.floor(Date.now() / bucketMs) * bucketMs);
    const stored = text === undefined && saved.rerun ? [{ ...saved.rerun, revision: 2 }, { startMs: saved.sinceMs, endMs: Infinity, text: saved.text, revision: 1 }] : [{ startMs: text === undefined ? saved.sinceMs : 0, endMs: Infinity, text: text ?? saved.text, revision: 1 }];
    const rows: ProgramRow[] = [];
    for (let at = Math.floor(startMs / bucketMs) * bucketMs; at < over; at += bucketMs) {
      const by = stored.find((part) => at >= Math.floor(part.startMs / bucketMs) * bucketMs && at < part.endMs);
      if (!by) continue;
      const lines = this.#lines(saved.language, by.text, at, at + bucketMs);
      if (lines.length === 0) continue;
      const output = run(saved.language, by.text, settings(saved.language, by.text), lines.map((one) => one.line));
      output.rows.forEach((fields, row) => rows.push({ time: new Date(at).toISOString(), revision: by.revision, row, fields }));
    }
    return rows;
  }

  dryRun(name: string, startMs: number, endMs: number, text: string | null): DryRun {
    const after = this.rows(name, startMs, endMs, text ?? this.#find(name).text);
    return { buckets: new Set(after.map((row) => row.time)).size, rows_before: this.rows(name, startMs, endMs), rows_after: after, is_cut: false };
  }

  rerun(name: string, id: string, startMs: number, endMs: number, text: string | null): void {
    const saved = this.#find(name);
    saved.rerun = { startMs, endMs, text: text ?? saved.text };
    saved.runs.unshift({ id, start: new Date(startMs).toISOString(), end: new Date(endMs).toISOString(), at: new Date().toISOString() });
  }

  runs(name: string): unknown {
    return { runs: this.#find(name).runs };
  }

  #find(name: string): Saved {
    const saved = this.#saved.get(name);
    if (!saved) throw Object.assign(new Error(`no such program: ${name}`), { status: 404 });
    return saved;
  }

  #lines(language: Language, text: string, startMs: number, endMs: number): Stored[] {
    const test = matching(language, text, settings(language, text));
    return this.#corpus.lines.filter(({ ms, line }) => ms >= startMs && ms < endMs && test(line));
  }
}
