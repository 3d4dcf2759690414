// Incidents with a known cause, each on days of its own: five hours of ordinary traffic of a shop, and something that
// happens in the last ten minutes. All of it follows from a seed, which changes with every run.

import { expect, type APIRequestContext } from '@playwright/test';

type Line = Record<string, string>;

export interface Incident {
  name: string;
  /** What the view must show that names the cause: texts that all stand in one card, or in one line that was never seen before. */
  cause: RegExp[];
  /** What stands out above the lines of the start page, where comparing the whole range finds nothing. */
  stands?: RegExp;
  /** What comes again and again over the whole history, by the minute. */
  always?: (line: Line, n: number, minute: number) => Line[];
  /** What happens instead of, or besides, an ordinary line; `part` goes from 0 to 1 over the incident. */
  change: (line: Line, n: number, part: number) => Line[];
}

// The workers inherit it, so that all files of a run have the same one.
process.env['LOGINSON_SEED'] ??= String(Date.now() % 1_000_000);
/** Chooses everything that is random; a failed run is repeated with `LOGINSON_SEED`. */
export const SEED = Number(process.env['LOGINSON_SEED']);

const HOSTS = Array.from({ length: 20 }, (_, n) => `web${n + 1}`);
const PATHS = ['/', '/cart', '/search', '/product', '/login', '/checkout'];
const REGIONS = ['eu-west', 'eu-north', 'us-east'];
const PARTNERS = ['acme', 'globex', 'initech', 'umbrella'];

/** Pseudo-random numbers from 0 to 1: SplitMix's mixing on 32 bits (Steele, Lea and Flood, 2014), once for the seed and once for all. */
function random(n: number, purpose: number): number {
  // Mixed by itself, the seed gives unrelated numbers, and not the same ones a few lines later.
  return mixed((Math.imul(n, 0x9e3779b1) + Math.imul(purpose, 0x85ebca6b)) ^ mixed(SEED)) / 2 ** 32;
}

function mixed(of: number): number {
  let x = (of + 0x9e3779b9) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad) >>> 0;
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97) >>> 0;
  return (x ^ (x >>> 15)) >>> 0;
}

const pick = <T>(from: readonly T[], n: number, purpose: number): T => from[Math.floor(random(n, purpose) * from.length)] as T;
/** The same choice for the whole run. */
const chosen = <T>(from: readonly T[], purpose: number): T => pick(from, 1, purpose);

const BAD_HOST = chosen(HOSTS, 101);
const QUIET_HOST = chosen(HOSTS, 102);
const BAD_UPSTREAM = `10.0.0.${1 + Math.floor(random(1, 103) * 5)}`;
const BAD_REGION = chosen(REGIONS, 104);
const BAD_NODE = `node-${1 + Math.floor(random(1, 105) * 6)}`;
const BAD_PARTNER = chosen(PARTNERS, 106);
const BAD_PATH = chosen(PATHS.slice(1), 107);
const exactly = (field: string, value: string): RegExp => new RegExp(`${field} ?= ?${value.replaceAll('.', '\\.')}(?!\\w)`);

function ordinary(n: number): Line {
  const host = pick(HOSTS, n, 1);
  const region = REGIONS[HOSTS.indexOf(host) % 3] as string;
  const kind = random(n, 2);
  const whole = (below: number, purpose: number): number => Math.floor(random(n, purpose) * below);
  if (kind < 0.04) return { app: 'cron', host, region, level: 'info', _msg: `job cleanup finished in ${whole(900, 3)} ms` };
  if (kind < 0.08) return { app: 'auth', host, region, level: 'warning', user: `user${whole(1_100, 4)}`, _msg: 'login failed: wrong password' };
  if (kind < 0.13) return { app: 'mailer', host: 'worker1', region: 'eu-west', level: 'info', _msg: `consumed ${1 + whole(40, 5)} messages of queue mail` };
  if (kind < 0.18) return { app: 'orders', host: 'worker2', region: 'eu-west', level: 'info', partner: pick(PARTNERS, n, 6), status: '200', _msg: `order ${100_000 + whole(900_000, 7)} sent to partner` };
  if (kind < 0.23) return { app: 'search', host: 'worker3', region: 'eu-west', level: 'info', gc_ms: String(3 + whole(9, 8)), _msg: 'pause of the garbage collector' };
  if (kind < 0.28) return { app: 'coredns', host: `dns${1 + whole(2, 9)}`, region, level: 'info', _msg: `10.1.${whole(200, 10)}.${whole(200, 11)} "A IN shop.example. udp" NOERROR ${whole(300, 12)}us` };
  return {
    app: 'shop',
    host,
    region,
    node: `node-${1 + (HOSTS.indexOf(host) % 6)}`,
    version: random(n, 13) < 0.08 ? '2.4.0' : '2.3.9',
    level: 'info',
    _msg: 'request done',
    path: pick(PATHS, n, 14),
    status: random(n, 15) < 0.01 ? '404' : '200',
    took_ms: String(Math.floor(20 + 60 * random(n, 16))),
    upstream: `10.0.0.${1 + whole(5, 17)}`,
    rss_mb: String(Math.floor(400 + 40 * random(n, 18))),
  };
}

/** A line that comes besides the others, once in so many. */
const besides = (line: Line, n: number, every: number, more: Line): Line[] => (n % every === 0 ? [line, more] : [line]);

export const INCIDENTS: readonly Incident[] = [
  {
    name: 'a full disk',
    cause: [/No space left on device/, /device=.*sdb1/],
    change: (line, n, part) => [
      ...besides(line, n, 7, { app: 'postgres', host: 'db1', level: 'error', device: '/dev/sdb1', _msg: `could not write to file "base/16384/${n}": No space left on device` }),
      ...(n % 3 === 0 && part > 0.01 ? [{ app: 'orders', host: line['host'] as string, level: 'error', pool: 'db1:5432/shop', _msg: `could not get connection after ${n % 1000} ms` }] : []),
    ],
  },
  {
    name: 'requests that are slow without an error',
    cause: [exactly('upstream', BAD_UPSTREAM)],
    change: (line) => [line['upstream'] === BAD_UPSTREAM ? { ...line, took_ms: String(Number(line['took_ms']) * 9) } : line],
  },
  { name: 'a silent host', cause: [/Gone/, exactly('host', QUIET_HOST)], stands: new RegExp(`${QUIET_HOST} silent`), change: (line) => (line['host'] === QUIET_HOST ? [] : [line]) },
  {
    name: 'a certificate that expired',
    cause: [/certificate has expired/, /peer=.*pay\.example/],
    change: (line, n) => besides(line, n, 20, { app: 'shop', host: line['host'] as string, level: 'error', peer: 'pay.example:443', _msg: `payment ${n} failed: x509: certificate has expired or is not yet valid` }),
  },
  {
    name: 'a storm of retries',
    cause: [/retrying/, /queue=.*mail/],
    change: (line, n, part) => [
      line,
      ...Array.from({ length: Math.floor(8 * part) + 1 }, (_, k) => ({ app: 'worker', host: line['host'] as string, level: 'warning', queue: 'mail', _msg: `send failed, retrying in ${(n + k) % 60} s (attempt ${k})` })),
    ],
  },
  {
    name: 'one bad host of twenty',
    cause: [exactly('host', BAD_HOST), /checksum mismatch/],
    change: (line, n) => (line['host'] === BAD_HOST && n % 2 === 0 ? [{ app: 'shop', host: BAD_HOST, level: 'error', _msg: `checksum mismatch in block ${n}` }] : [line]),
  },
  {
    name: 'a slow leak',
    cause: [/rss_mb/, /Higher/],
    change: (line, _, part) => [line['rss_mb'] === undefined ? line : { ...line, rss_mb: String(Math.floor(Number(line['rss_mb']) * (1 + 1.5 * part))) }],
  },
  {
    name: 'wrong answers of a canary',
    cause: [exactly('version', '2.4.0'), /total of cart/],
    change: (line, n) => (line['version'] === '2.4.0' && n % 2 === 0 ? [{ ...line, level: 'warning', _msg: `total of cart ${n} differs from its items` }] : [line]),
  },
  {
    name: 'one slow node',
    cause: [exactly('node', BAD_NODE)],
    change: (line) => [line['node'] === BAD_NODE ? { ...line, took_ms: String(Number(line['took_ms']) * 6) } : line],
  },
  {
    name: 'the lock of a job',
    cause: [/LOCK TABLE orders/],
    change: (line, n, part) => {
      const lock = part === 0 ? [{ app: 'cron', host: 'db1', level: 'info', _msg: 'CRON: LOCK TABLE orders IN EXCLUSIVE MODE' }] : [];
      return [...lock, ...besides(line, n, 4, { app: 'orders', host: 'worker2', level: 'error', _msg: `order ${n} not saved: canceling statement due to lock timeout` })];
    },
  },
  {
    name: 'a certificate in one region',
    cause: [exactly('region', BAD_REGION), /unknown authority/],
    change: (line, n) => (line['region'] === BAD_REGION && line['app'] === 'shop' && n % 3 === 0 ? [line, { app: 'gateway', host: line['host'] as string, region: BAD_REGION, level: 'error', _msg: `handshake with 10.2.${n % 250}.7 failed: certificate signed by unknown authority` }] : [line]),
  },
  { name: 'a silent consumer', cause: [/mailer|consumed/, /0 seen/], stands: /mailer silent/, change: (line) => (line['app'] === 'mailer' ? [] : [line]) },
  {
    name: 'stuffed credentials',
    cause: [exactly('user', 'admin')],
    change: (line, n) => besides(line, n, 3, { app: 'auth', host: line['host'] as string, region: line['region'] as string, level: 'warning', user: 'admin', _msg: 'login failed: wrong password' }),
  },
  {
    name: 'an error of a disk under a flood of debug lines',
    cause: [/EXT4/, /sdc1/],
    change: (line, n, part) => [
      line,
      ...Array.from({ length: 6 }, (_, k) => ({ app: 'search', host: 'worker3', level: 'debug', _msg: `segment ${(n + k) % 900} scored ${k * n}` })),
      ...(n % 400 === 0 && part > 0.2 ? [{ app: 'kernel', host: 'worker3', level: 'error', _msg: `EXT4-fs error (device sdc1): ext4_find_entry: inode #${n}: reading directory lblock 0` }] : []),
    ],
  },
  {
    name: 'a partner that limits the rate',
    cause: [exactly('status', '429'), exactly('partner', BAD_PARTNER)],
    change: (line) => [line['partner'] === BAD_PARTNER ? { ...line, level: 'warning', status: '429' } : line],
  },
  {
    name: 'pauses of a garbage collector that grow',
    cause: [/gc_ms/, /search|worker3/],
    change: (line, _, part) => [line['gc_ms'] === undefined ? line : { ...line, gc_ms: String(Math.floor(Number(line['gc_ms']) * (1 + 20 * part))) }],
  },
  {
    name: 'one page that fails after a deployment',
    cause: [exactly('path', BAD_PATH), /template/],
    change: (line, n, part) => {
      const deployed = part === 0 ? [{ app: 'deploy', host: 'ci1', level: 'notice', _msg: 'release 2.3.10 rolled out to shop' }] : [];
      return [...deployed, line['path'] === BAD_PATH && n % 2 === 0 ? { ...line, level: 'error', status: '500', _msg: `rendering failed: template ${n % 40} has no field price` } : line];
    },
  },
  {
    name: 'a job that locks a table every twenty minutes',
    cause: [/lock timeout/, /orders/],
    stands: /every 20m/,
    always: (line, n, minute) => {
      if (minute % 20 !== 7) return [line];
      return [...besides(line, n, 100, { app: 'cron', host: 'db1', level: 'info', _msg: 'CRON: REINDEX TABLE orders' }), { app: 'orders', host: 'worker2', level: 'error', _msg: `order ${n} not saved: canceling statement due to lock timeout` }];
    },
    change: (line) => [line],
  },
];

const [DAY_MS, HOUR_MS, MINUTE_MS] = [86_400_000, 3_600_000, 60_000];

/** When the range of an incident ends; it is the hour before. Whole days apart, so that none is in the history of another. */
export function endOf(place: number): number {
  return Math.floor(Date.now() / DAY_MS) * DAY_MS - (place + 2) * DAY_MS;
}

const between = (from: number, to: number): string => `from=${new Date(from).toISOString()}&to=${new Date(to).toISOString()}`;

/** The hour whose last ten minutes are the incident, as parameters of the page. */
export function rangeOf(place: number): string {
  return between(endOf(place) - HOUR_MS, endOf(place));
}

async function post(request: APIRequestContext, lines: readonly string[]): Promise<void> {
  const answer = await request.post('/insert/jsonline?_stream_fields=app', { data: `${lines.join('\n')}\n`, headers: { 'content-type': 'text/plain' } });
  expect(answer.ok(), await answer.text()).toBe(true);
}

/** Sends the lines of an incident: two a second, for five hours. */
export async function send(request: APIRequestContext, place: number): Promise<void> {
  const incident = INCIDENTS[place] as Incident;
  const [start, begin, end] = [endOf(place) - 5 * HOUR_MS, endOf(place) - HOUR_MS / 6, endOf(place)];
  const lines: string[] = [];
  for (let [ms, n] = [start, place * 100_000]; ms < end; ms += 500, n++) {
    const line = ordinary(n);
    const before = incident.always?.(line, n, Math.floor((ms - start) / MINUTE_MS)) ?? [line];
    const found = ms < begin ? before : before.length > 1 ? before : incident.change(line, n, (ms - begin) / (end - begin));
    found.forEach((one, k) => lines.push(JSON.stringify({ _time: new Date(ms + k).toISOString(), ...one })));
  }
  await post(request, lines);
}

// ---- windows in which nothing happens ----

export const QUIET_WINDOWS = 15;
/** Each window is compared with the time before it, four times as long. */
const QUIET_MS = 10 * MINUTE_MS;

export function quietRange(place: number): string {
  const end = endOf(INCIDENTS.length) - place * QUIET_MS;
  return between(end - QUIET_MS, end);
}

/** Sends ordinary lines for all quiet windows and for what they are compared with. */
export async function sendQuiet(request: APIRequestContext): Promise<void> {
  const [start, end] = [endOf(INCIDENTS.length) - (QUIET_WINDOWS + 4) * QUIET_MS, endOf(INCIDENTS.length)];
  const lines: string[] = [];
  for (let [ms, n] = [start, INCIDENTS.length * 100_000]; ms < end; ms += 500, n++) lines.push(JSON.stringify({ _time: new Date(ms).toISOString(), ...ordinary(n) }));
  await post(request, lines);
}
