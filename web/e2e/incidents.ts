// Incidents with a known cause, each in a week of its own: five hours of ordinary traffic of a shop, and something that
// happens in the last ten minutes.

import { expect, type APIRequestContext } from '@playwright/test';

type Line = Record<string, string>;

export interface Incident {
  name: string;
  /** What the view must show that names the cause: texts that all stand in one difference. */
  cause: RegExp[];
  /** What stands out above the lines of the start page, where comparing the whole range finds nothing. */
  stands?: RegExp;
  /** What happens instead of, or besides, an ordinary line; `part` goes from 0 to 1 over the incident. */
  change: (line: Line, n: number, part: number) => Line[];
}

const HOSTS = Array.from({ length: 20 }, (_, n) => `web${n + 1}`);
const PATHS = ['/', '/cart', '/search', '/product', '/login', '/checkout'];

/** Pseudo-random numbers from 0 to 1, the same in every run. */
function random(n: number): number {
  const x = Math.sin(n * 127.1 + 311.7) * 43_758.5453;
  return x - Math.floor(x);
}

function ordinary(n: number): Line {
  const [host, path] = [HOSTS[Math.floor(random(n) * 20)] as string, PATHS[Math.floor(random(n + 0.3) * 6)] as string];
  const kind = random(n + 0.6);
  if (kind < 0.05) return { app: 'cron', host, level: 'info', _msg: `job cleanup finished in ${Math.floor(random(n + 0.7) * 900)} ms` };
  if (kind < 0.08) return { app: 'auth', host, level: 'warning', _msg: `login of user${Math.floor(random(n + 0.7) * 500)} failed: wrong password` };
  return {
    app: 'shop',
    host,
    level: 'info',
    _msg: 'request done',
    path,
    status: random(n + 0.8) < 0.01 ? '404' : '200',
    took_ms: String(Math.floor(20 + 60 * random(n + 0.9))),
    upstream: `10.0.0.${1 + Math.floor(random(n + 0.4) * 5)}`,
    rss_mb: String(Math.floor(400 + 40 * random(n + 0.2))),
  };
}

export const INCIDENTS: readonly Incident[] = [
  {
    name: 'a full disk',
    cause: [/No space left on device/, /device=.*sdb1/],
    change: (line, n, part) => [
      line,
      ...(n % 7 === 0 ? [{ app: 'postgres', host: 'db1', level: 'error', device: '/dev/sdb1', _msg: `could not write to file "base/16384/${n}": No space left on device` }] : []),
      ...(n % 3 === 0 && part > 0.01 ? [{ app: 'orders', host: line['host'] as string, level: 'error', pool: 'db1:5432/shop', _msg: `could not get connection after ${n % 1000} ms` }] : []),
    ],
  },
  {
    name: 'requests that are slow without an error',
    cause: [/upstream.*10\.0\.0\.3/],
    change: (line) => [line['upstream'] === '10.0.0.3' ? { ...line, took_ms: String(Number(line['took_ms']) * 9) } : line],
  },
  { name: 'a silent host', cause: [/Gone/, /host = web7/], stands: /web7 silent/, change: (line) => (line['host'] === 'web7' ? [] : [line]) },
  {
    name: 'a certificate that expired',
    cause: [/certificate has expired/, /peer=.*pay\.example/],
    change: (line, n) => [line, ...(n % 20 === 0 ? [{ app: 'shop', host: line['host'] as string, level: 'error', peer: 'pay.example:443', _msg: `payment ${n} failed: x509: certificate has expired or is not yet valid` }] : [])],
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
    cause: [/host=.*web13/, /checksum mismatch/],
    change: (line, n) => (line['host'] === 'web13' && n % 2 === 0 ? [{ app: 'shop', host: 'web13', level: 'error', _msg: `checksum mismatch in block ${n}` }] : [line]),
  },
  {
    name: 'a slow leak',
    cause: [/rss_mb/, /Higher/],
    change: (line, _, part) => [line['rss_mb'] === undefined ? line : { ...line, rss_mb: String(Math.floor(Number(line['rss_mb']) * (1 + 1.5 * part))) }],
  },
];

const [DAY_MS, HOUR_MS] = [86_400_000, 3_600_000];

/** When the range of an incident ends; it is the hour before. Whole days apart, so that none is in the history of another. */
export function endOf(place: number): number {
  return Math.floor(Date.now() / DAY_MS) * DAY_MS - (place + 2) * DAY_MS;
}

/** The hour whose last ten minutes are the incident, as parameters of the page. */
export function rangeOf(place: number): string {
  const [from, to] = [endOf(place) - HOUR_MS, endOf(place)].map((ms) => new Date(ms).toISOString());
  return `from=${from}&to=${to}`;
}

/** Sends the lines of an incident: two a second, for five hours. */
export async function send(request: APIRequestContext, place: number): Promise<void> {
  const incident = INCIDENTS[place] as Incident;
  const [start, begin, end] = [endOf(place) - 5 * HOUR_MS, endOf(place) - HOUR_MS / 6, endOf(place)];
  const lines: string[] = [];
  for (let [ms, n] = [start, place * 100_000]; ms < end; ms += 500, n++) {
    const line = ordinary(n);
    const found = ms < begin ? [line] : incident.change(line, n, (ms - begin) / (end - begin));
    found.forEach((one, k) => lines.push(JSON.stringify({ _time: new Date(ms + k).toISOString(), ...one })));
  }
  const answer = await request.post('/insert/jsonline?_stream_fields=app', { data: `${lines.join('\n')}\n`, headers: { 'content-type': 'text/plain' } });
  expect(answer.ok(), await answer.text()).toBe(true);
}
