// A stand-in for the server, inside `npm run dev` and `npm run preview`, for work on the page
// alone. It answers the calls of docs/api.md from generated lines (corpus.ts). The word `slowly` in
// a query makes it take ten seconds.

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Plugin } from 'vite';
import { splitQuery } from '../src/lib/query/logsql.ts';
import { parseDuration, parseInstant } from '../src/lib/base/time.ts';
import { Corpus, type Stored } from './corpus.ts';
import { MockDashboards } from './dashboards.ts';
import { compile, WrongQuery } from './match.ts';
import { MockPrograms, WrongProgram } from './programs.ts';
import { statsRows } from './stats.ts';

interface Entry {
  id: string;
  kind: string;
  query: string;
  state: 'running' | 'done' | 'cancelled' | 'failed';
  startedMs: number;
  endedMs: number | null;
  progress: number;
  bytes_scanned: number;
  lines_scanned: number;
  rows: number;
  memory_bytes: number;
  error: string | null;
  client: string;
  stop: AbortController;
}

class Refused extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

const SLOW_MS = 10_000;
const LIMITS = {
  concurrent: 4,
  waiting: 32,
  wait_s: 10,
  run_s: 60,
  memory_bytes: 2 ** 29,
  rows: 1e7,
  background_concurrent: 2,
  background_waiting: 32,
  background_run_s: 86_400,
  result_bytes: 2 ** 28,
  result_bytes_total: 2 ** 30,
  results_keep_s: 86_400,
};
const QUEUE_MAX = 100;

class Mock {
  #corpus = process.env['MOCK_EMPTY'] ? new Corpus(Date.now(), 0, 0) : new Corpus(Date.now(), 9, 3_600_000);
  #programs = new MockPrograms(this.#corpus);
  #dashboards = new MockDashboards();
  #entries: Entry[] = [];
  #nextId = 1;
  #startedMs = Date.now();
  #posted = 0;

  async answer(request: IncomingMessage, response: ServerResponse, next: () => void): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://mock');
    if (!/^\/(select|insert|api|metrics|health|ready)/.test(url.pathname)) return next();
    const body = await text(request);
    const params = url.searchParams;
    if ((request.headers['content-type'] ?? '').startsWith('application/x-www-form-urlencoded') && url.pathname.startsWith('/select')) {
      new URLSearchParams(body).forEach((value, name) => params.set(name, value));
    }
    this.#corpus.grow(Date.now());
    try {
      await this.#route(request, response, url.pathname, params, body);
    } catch (error) {
      if (response.headersSent) return void response.end();
      if (error instanceof WrongQuery) {
        send(response, { error: error.message, position: error.position, expected: error.expected, query: params.get('query') }, 400);
      } else if (error instanceof WrongProgram) {
        send(response, { error: error.message, line: error.line }, 400);
      } else {
        const status = (error as { status?: unknown }).status;
        send(response, { error: error instanceof Error ? error.message : String(error) }, typeof status === 'number' ? status : 500);
      }
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse, path: string, params: URLSearchParams, body: string): Promise<void> {
    const cancel = /^\/api\/v1\/queries\/(\d+)$/.exec(path);
    if (cancel) {
      const entry = this.#entries.find((one) => one.id === cancel[1]);
      if (!entry) throw new Refused(404, 'no such query');
      if (request.method === 'DELETE' && entry.state === 'running') {
        entry.state = 'cancelled';
        entry.stop.abort();
      }
      return send(response, { id: entry.id, state: entry.state });
    }
    if (path.startsWith('/api/v1/programs')) return this.#program(request, response, path.split('/').slice(4).map(decodeURIComponent), params, body);
    if (path.startsWith('/api/v1/dashboards')) return this.#dashboard(request, response, path.split('/').slice(4).map(decodeURIComponent)[0], body);
    switch (path) {
      case '/api/v1/sinks':
        return send(response, { sinks: [] });
      case '/select/logsql/query':
        return this.#queue('query', request, response, params, (lines) => this.#rows(response, lines, params));
      case '/select/logsql/hits':
        return this.#queue('hits', request, response, params, (lines) => send(response, this.#hits(lines, params)));
      case '/select/logsql/facets':
        return this.#queue('facets', request, response, params, (lines) => send(response, this.#facets(lines, params)));
      case '/select/logsql/field_names':
        return this.#queue('field_names', request, response, params, (lines) => {
          const names = new Map<string, number>();
          for (const { line } of lines) for (const name of Object.keys(line)) if (!/^_(id|raw|received)$/.test(name)) names.set(name, (names.get(name) ?? 0) + 1);
          send(response, { values: [...names].map(([value, hits]) => ({ value, hits })) });
        });
      case '/select/logsql/field_values':
        return this.#queue('field_values', request, response, params, (lines) => {
          const values = counted(lines, params.get('field') ?? '').filter(([value]) => value.includes(params.get('filter') ?? ''));
          send(response, { values: values.slice(0, Number(params.get('limit') ?? 100)).map(([value, hits]) => ({ value, hits })) });
        });
      case '/select/logsql/tail':
        return this.#tail(request, response, params);
      case '/insert/jsonline':
        return this.#insert(response, body, params);
      case '/api/v1/me':
        return send(response, { login: 'off', name: null, role: 'admin', exposed: false, restricted: false, passwords: true, providers: [] });
      case '/api/v1/queries':
        return send(response, { queries: this.#entries.map(shown), limits: LIMITS, result_bytes: 0 });
      case '/api/v1/context':
        return this.#context(response, params);
      case '/api/v1/summary':
        return send(response, this.#summary(params));
      case '/api/v1/summary/types':
        return send(response, this.#types(params));
      case '/api/v1/files':
        return send(response, {
          followed: 2, unreadable: 1, lag_bytes: 0, bytes_lost: 0,
          files: [
            { path: '/var/log/secret.log', state: 'unreadable', size_bytes: 0, lag_bytes: 0, read: null, error: 'permission denied' },
            { path: '/var/log/app.log', state: 'following', size_bytes: 81_920, lag_bytes: 0, read: new Date().toISOString(), error: null },
          ],
        });
      case '/api/v1/status':
        return send(response, this.#status());
      default:
        throw new Refused(404, `no such page: ${path}`);
    }
  }

  #dashboard(request: IncomingMessage, response: ServerResponse, id: string | undefined, body: string): void {
    if (id === undefined) return send(response, this.#dashboards.list());
    if (request.method === 'PUT') return send(response, this.#dashboards.put(id, body));
    if (request.method === 'DELETE') {
      this.#dashboards.delete(id);
      return send(response, {});
    }
    return send(response, this.#dashboards.get(id));
  }

  #program(request: IncomingMessage, response: ServerResponse, [name, action]: string[], params: URLSearchParams, body: string): void {
    const [startMs, endMs] = this.#range(params);
    const language = params.get('language') === 'logsql' ? 'logsql' : 'awk';
    const text = body === '' ? null : body;
    switch (`${request.method} ${name === undefined ? '' : name === 'test' || name === 'reload' ? name : `NAME${action === undefined ? '' : `/${action}`}`}`) {
      case 'GET ':
        return send(response, this.#programs.list());
      case 'POST test': {
        const asked = JSON.parse(body) as { text: string; language: 'awk' | 'logsql'; lines: string[] };
        return send(response, this.#programs.test(asked.language, asked.text, asked.lines));
      }
      case 'POST reload':
        return send(response, { programs: 0, invalid: 0 });
      case 'GET NAME':
        return send(response, this.#programs.describe(name as string));
      case 'POST NAME':
        this.#programs.save(name as string, language, body);
        return send(response, {});
      case 'DELETE NAME':
        this.#programs.remove(name as string);
        return send(response, {});
      case 'POST NAME/enable':
      case 'POST NAME/disable':
        this.#programs.switch(name as string, action === 'enable');
        return send(response, {});
      case 'GET NAME/rows':
        return send(response, { bucket_s: this.#programs.describe(name as string).bucket_s, rows: this.#programs.rows(name as string, startMs, endMs), is_cut: false });
      case 'GET NAME/runs':
        return send(response, this.#programs.runs(name as string));
      case 'POST NAME/runs': {
        if (params.has('dry_run')) return send(response, this.#programs.dryRun(name as string, startMs, endMs, text));
        const entry = this.#enter('program', request, name as string);
        const end = (state: Entry['state']): void => {
          entry.state = state;
          entry.endedMs = Date.now();
        };
        const timer = setInterval(() => {
          if (entry.stop.signal.aborted) return void clearInterval(timer);
          entry.progress = Math.min(1, entry.progress + 0.2);
          if (entry.progress < 1) return;
          clearInterval(timer);
          this.#programs.rerun(name as string, entry.id, startMs, endMs, text);
          end('done');
        }, 300);
        return send(response, { id: entry.id }, 202);
      }
      default:
        throw new Refused(404, 'no such page');
    }
  }

  #range(params: URLSearchParams): [number, number] {
    const instant = (name: string, otherwise: number): number => {
      const value = params.get(name);
      if (value === null) return otherwise;
      return parseInstant(value, Date.now(), true) ?? otherwise;
    };
    return [instant('start', -Infinity), instant('end', Infinity)];
  }

  #matching(params: URLSearchParams, query = params.get('query') ?? '*'): Stored[] {
    const test = compile(splitQuery(query.replace('slowly', '*')).filter);
    const [start, end] = this.#range(params);
    return this.#corpus.lines.filter(({ ms, line }) => ms >= start && ms < end + (end % 1 ? 1 : 0) && test(line));
  }

  async #queue(kind: string, request: IncomingMessage, response: ServerResponse, params: URLSearchParams, run: (lines: Stored[]) => void): Promise<void> {
    const entry = this.#enter(kind, request, params.get('query') ?? '*');
    try {
      const lines = this.#matching(params);
      const steps = entry.query.includes('slowly') ? 40 : 1;
      for (let step = 1; step <= steps; step++) {
        if (steps > 1) await new Promise((resolve) => setTimeout(resolve, SLOW_MS / steps));
        if (entry.stop.signal.aborted || response.destroyed) {
          entry.state = 'cancelled';
          throw new Refused(503, 'the query was cancelled');
        }
        entry.progress = step / steps;
        entry.lines_scanned = Math.round(this.#corpus.lines.length * entry.progress);
        entry.bytes_scanned = entry.lines_scanned * 140;
      }
      response.setHeader('X-Loginson-Query-Id', entry.id);
      entry.rows = Math.min(lines.length, Number(params.get('limit') ?? 1e9));
      run(lines);
      entry.state = 'done';
    } catch (error) {
      if (entry.state === 'running') {
        entry.state = 'failed';
        entry.error = String(error);
      }
      throw error;
    } finally {
      entry.endedMs = Date.now();
    }
  }

  #enter(kind: string, request: IncomingMessage, query: string): Entry {
    const entry: Entry = {
      id: String(this.#nextId++), kind, query, state: 'running', startedMs: Date.now(), endedMs: null, progress: 0, bytes_scanned: 0,
      lines_scanned: 0, rows: 0, memory_bytes: 4096, error: null, client: `127.0.0.1:${request.socket.remotePort}`, stop: new AbortController(),
    };
    this.#entries = [entry, ...this.#entries].slice(0, QUEUE_MAX);
    return entry;
  }

  #rows(response: ServerResponse, lines: Stored[], params: URLSearchParams): void {
    const { pipes } = splitQuery(params.get('query') ?? '*');
    const [startMs, endMs] = this.#range(params);
    const table = statsRows(params.get('query') ?? '*', lines, (endMs - startMs) / 1000);
    response.setHeader('Content-Type', 'application/stream+json');
    if (table) {
      for (const row of table.slice(0, Number(params.get('limit') ?? 1e9) || 1e9)) response.write(`${JSON.stringify(row)}\n`);
    } else {
      const offset = Number(params.get('offset') ?? 0);
      const limit = Number(params.get('limit') ?? 1000);
      const sort = /^\|\s*sort by \(_time\)(?: offset (\d+))? limit (\d+)$/.exec(pipes);
      const from = Number(sort?.[1] ?? offset);
      const page = sort ? lines.slice(from, from + Number(sort[2])) : [...lines].reverse().slice(offset, offset + limit);
      for (const { line } of page) response.write(`${JSON.stringify(line)}\n`);
    }
    response.end();
  }

  #hits(lines: Stored[], params: URLSearchParams): unknown {
    const stepMs = parseDuration(params.get('step') ?? '1d') ?? 86_400_000;
    const field = params.get('field') ?? '';
    const groups = new Map<string, Map<number, number>>();
    for (const { ms, line } of lines) {
      const value = line[field] ?? '';
      const at = Math.floor(ms / stepMs) * stepMs;
      const group = groups.get(value) ?? new Map<number, number>();
      group.set(at, (group.get(at) ?? 0) + 1);
      groups.set(value, group);
    }
    const hits = [...groups].map(([value, group]) => ({
      fields: { [field]: value },
      timestamps: [...group.keys()].map((at) => new Date(at).toISOString()),
      values: [...group.values()],
      total: [...group.values()].reduce((sum, count) => sum + count, 0),
    }));
    return { hits, step_s: stepMs / 1000 };
  }

  #facets(lines: Stored[], params: URLSearchParams): unknown {
    const names = new Set(lines.flatMap(({ line }) => Object.keys(line)).filter((name) => name === '_type' || !name.startsWith('_')));
    const facets = [...names].map((name) => ({
      field_name: name,
      values: counted(lines, name).slice(0, Number(params.get('limit') ?? 10)).map(([field_value, hits]) => ({ field_value, hits })),
    }));
    const constant = (facet: (typeof facets)[number]): boolean => facet.values.length === 1 && facet.values[0]?.hits === lines.length;
    return { facets: facets.filter((facet) => facet.values.length > 0 && (params.has('keep_const_fields') || !constant(facet))) };
  }

  #tail(request: IncomingMessage, response: ServerResponse, params: URLSearchParams): void {
    const entry = this.#enter('tail', request, params.get('query') ?? '*');
    const test = compile(splitQuery(entry.query).filter);
    response.setHeader('Content-Type', 'application/stream+json');
    response.setHeader('X-Loginson-Query-Id', entry.id);
    response.flushHeaders();
    let seen = this.#corpus.lines.length;
    const timer = setInterval(() => {
      this.#corpus.grow(Date.now());
      for (; seen < this.#corpus.lines.length; seen++) {
        const { line } = this.#corpus.lines[seen] as Stored;
        if (test(line)) response.write(`${JSON.stringify(line)}\n`);
      }
      response.write('\n');
    }, 400);
    const end = (): void => {
      clearInterval(timer);
      if (entry.state === 'running') entry.state = 'cancelled';
      entry.endedMs ??= Date.now();
      response.end();
    };
    response.on('close', end);
    entry.stop.signal.addEventListener('abort', end);
  }

  #insert(response: ServerResponse, body: string, params: URLSearchParams): void {
    const lines = body.split('\n').filter((line) => line.trim() !== '');
    for (const raw of lines) {
      const fields = JSON.parse(raw) as Record<string, string>;
      const time = fields['_time'];
      delete fields['_time'];
      this.#corpus.add(time ? Date.parse(time) : Date.now(), { _type: params.get('_type') ?? 'json', ...fields }, raw);
      this.#posted++;
    }
    send(response, { lines: lines.length, bytes: body.length });
  }

  #context(response: ServerResponse, params: URLSearchParams): void {
    const target = this.#corpus.lines.find(({ line }) => line['_line_id'] === params.get('id'));
    if (!target) throw new Refused(404, 'no such line: retention may have deleted it');
    const stream = this.#corpus.lines.filter(({ line }) => line['_stream'] === target.line['_stream']);
    const at = stream.indexOf(target);
    const rows = stream.slice(Math.max(0, at - Number(params.get('before') ?? 20)), at + 1 + Number(params.get('after') ?? 20));
    send(response, { stream: target.line['_stream'], rows: rows.map(({ line }) => (line === target.line ? { ...line, _is_target: 'true' } : line)) });
  }

  #types(params: URLSearchParams): unknown {
    const types = new Map<string, { type: string; lines: number; bytes: number; levels: Record<string, number> }>();
    for (const { line } of this.#matching(params, '*')) {
      const name = line['_type'] ?? '';
      const type = types.get(name) ?? { type: name, lines: 0, bytes: 0, levels: {} };
      type.lines++;
      type.bytes += (line['_line'] ?? '').length;
      type.levels[line['_level'] ?? ''] = (type.levels[line['_level'] ?? ''] ?? 0) + 1;
      types.set(name, type);
    }
    return { types: [...types.values()] };
  }

  #summary(params: URLSearchParams): unknown {
    const type = params.get('type') ?? '';
    const stepMs = parseDuration(params.get('step') ?? '10s') ?? 10_000;
    const [start, end] = this.#range(params);
    const first = Math.floor(start / stepMs) * stepMs;
    const count = Math.max(1, Math.ceil((end - first) / stepMs));
    const zeros = (): number[] => new Array<number>(count).fill(0);
    const series: Record<string, Record<string, number[]>> = { level: {}, app_name: {}, hostname: {}, ...(type === 'access' ? { status: {} } : {}) };
    const totals: Record<string, Record<string, number>> = {};
    const [lines, bytes, sent] = [zeros(), zeros(), zeros()];
    const bump = (list: number[], at: number, by: number): void => void (list[at] = (list[at] ?? 0) + by);
    for (const { ms, line } of this.#matching(params, '*')) {
      if (line['_type'] !== type) continue;
      const at = Math.floor((ms - first) / stepMs);
      bump(lines, at, 1);
      bump(bytes, at, (line['_line'] ?? '').length);
      bump(sent, at, Number(line['response_bytes'] ?? 0));
      for (const [field, values] of Object.entries(series)) {
        const value = line[field] ?? '';
        bump((values[value] ??= zeros()), at, 1);
        const sum = (totals[field] ??= {});
        sum[value] = (sum[value] ?? 0) + 1;
      }
    }
    return {
      type, step_s: stepMs / 1000, bucket_s: 10, timestamps: lines.map((_, i) => new Date(first + i * stepMs).toISOString()), lines, bytes, series, totals,
      ...(type === 'access' ? { sums: { response_bytes: sent } } : {}),
    };
  }

  #status(): unknown {
    const lines = this.#corpus.lines;
    const received = lines.length - this.#posted;
    const total = 100 * 2 ** 30;
    return {
      version: '0.1.0', started: new Date(this.#startedMs).toISOString(), now: new Date().toISOString(), uptime_s: (Date.now() - this.#startedMs) / 1000, ready: true,
      ingest: [
        source('syslog_udp', 'syslog over UDP', Math.floor(received / 3), process.env['MOCK_DROPS'] ? { kernel: 1234 } : {}),
        source('syslog_tcp', 'syslog over TCP', Math.ceil((2 * received) / 3), {}),
        source('http', 'HTTP', this.#posted, {}),
      ],
      store: {
        lines: lines.length, bytes_raw: lines.length * 140, bytes_disk: lines.length * 145, segments: 1,
        segments_sealed: 0, sealed_bytes_raw: 0, sealed_bytes_disk: 0, sealing: { lag_segments: 0, lag_bytes: 0, lag_s: 0, damaged_segments: 0 },
        oldest: lines[0]?.line._time ?? null, newest: lines[lines.length - 1]?.line._time ?? null,
        disk_free_bytes: total * 0.28, disk_used_bytes: total * 0.09, disk_total_bytes: total, retention: { age_s: null, bytes_max: 20 * 2 ** 30 }, state: 'ok',
      },
      parse_lag_lines: 0, recovery: 'Clean start: 1 hot segment of 4.2 MiB read, nothing to repair.',
      listeners: { http: '127.0.0.1:9514', syslog_udp: '127.0.0.1:5514', syslog_tcp: '127.0.0.1:5514' }, files: { followed: 2, unreadable: 1, lag_bytes: 0, bytes_lost: 0 },
      journald: { reading: true, entries: 1234, error: null }, data_dir: './loginson-data', cluster: false,
    };
  }
}

/** The counters of a source that lost as many lines as given, and kept the others. */
function source(name: string, title: string, lines: number, dropped: Record<string, number>): unknown {
  return {
    source: name, title, lines_received: lines, bytes_received: lines * 140, lines_kept: lines, bytes_kept: lines * 140, lines_in_flight: 0, bytes_in_flight: 0,
    connections_total: name === 'syslog_udp' ? 0 : 3, connections_open: name === 'syslog_tcp' ? 2 : 0, connections_refused: 0,
    dropped: { kernel: 0, oversized: 0, disk_full: 0, ...dropped }, dropped_bytes: { kernel: 0, oversized: 0, disk_full: 0 },
  };
}

function counted(lines: readonly Stored[], field: string): [string, number][] {
  const counts = new Map<string, number>();
  for (const { line } of lines) {
    const value = line[field];
    if (value !== undefined && value !== '') counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]);
}

function shown(entry: Entry): unknown {
  const { startedMs, endedMs, stop: _stop, ...rest } = entry;
  const unknown = { position: null, left_ms: null, blocks_done: 0, blocks_planned: 0, bytes_planned: 0 };
  return { ...unknown, ...rest, started: new Date(startedMs).toISOString(), wait_ms: 0, run_ms: (endedMs ?? Date.now()) - startedMs };
}

function send(response: ServerResponse, body: unknown, status = 200): void {
  response.statusCode = status;
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify(body));
}

async function text(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString('utf8');
}

export function mockServer(): Plugin {
  let mock: Mock | null = null;
  const answer = (request: IncomingMessage, response: ServerResponse, next: () => void): void => {
    mock ??= new Mock();
    void mock.answer(request, response, next);
  };
  return {
    name: 'loginson-mock',
    configureServer: (server) => void server.middlewares.use(answer),
    configurePreviewServer: (server) => void server.middlewares.use(answer),
  };
}
