// Generated logs for working on the page without a server: some types, some hosts, and one incident
// (a database out of connections, visible as a burst of status 500). The same seed gives the same
// lines.

export type Line = Record<string, string> & { _time: string };

export interface Stored {
  ms: number;
  line: Line;
}

function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const PATHS = ['/', '/login', '/api/orders', '/api/orders/17', '/static/app.js', '/search?q=lamp', '/health', '/cart'];
const SHOP_PATHS = ['/api/cart', '/api/checkout', '/api/orders', '/api/items/17'];
const USERS = ['root', 'admin', 'alice', 'bob', 'deploy', '<script>alert(1)</script>'];
const HOSTS = ['web1', 'web2', 'db1', 'cache1'];

export class Corpus {
  readonly lines: Stored[] = [];
  readonly startedMs: number;
  #random = random(7);
  #untilMs: number;
  readonly #incidentMs: [number, number];
  #sequence = 0;

  constructor(nowMs: number, readonly linesPerS: number, backMs: number) {
    this.startedMs = nowMs;
    this.#untilMs = nowMs - backMs;
    this.#incidentMs = [nowMs - 0.2 * backMs, nowMs - 0.2 * backMs + 90_000];
    this.grow(nowMs);
  }

  /** Makes the lines up to now. */
  grow(nowMs: number): Stored[] {
    const from = this.lines.length;
    while (this.#untilMs < nowMs) {
      const second = this.#untilMs;
      const count = Math.round(this.linesPerS * (0.6 + 0.8 * this.#random()) * (1 + 0.4 * Math.sin(second / 400_000)));
      for (let i = 0; i < count; i++) this.#one(second + Math.floor((1000 * i) / count));
      this.#untilMs += 1000;
    }
    return this.lines.slice(from);
  }

  add(ms: number, fields: Record<string, string>, raw: string): Stored {
    const type = fields['_type'] ?? 'syslog';
    const stream = `{_type="${type}",app_name="${fields['app_name'] ?? ''}",hostname="${fields['hostname'] ?? ''}"}`;
    const line: Line = {
      _time: new Date(ms).toISOString().replace('Z', '123456Z'),
      _stream: stream,
      ...fields,
      _type: type,
      ...(fields['level'] === undefined ? {} : { _level: fields['level'] }),
      _line_id: `1-${this.#sequence++}`,
      _line: raw,
      _received: new Date(ms + 3).toISOString(),
    };
    const stored = { ms, line };
    this.lines.push(stored);
    return stored;
  }

  #pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)] as T;
  }

  #one(ms: number): void {
    const incident = ms >= this.#incidentMs[0] && ms < this.#incidentMs[1];
    const dice = this.#random();
    if (dice < 0.55) this.#access(ms, incident);
    else if (dice < 0.75) this.#sshd(ms);
    else if (dice < 0.88) this.#postgres(ms, incident);
    else if (dice < 0.95) this.#shop(ms, incident);
    else this.#kernel(ms);
  }

  #access(ms: number, incident: boolean): void {
    const dice = this.#random();
    const status = incident && dice < 0.55 ? '500' : dice > 0.995 ? '502' : dice > 0.95 ? '404' : dice > 0.9 ? '302' : '200';
    const level = status[0] === '5' ? 'error' : status[0] === '4' ? 'warning' : 'info';
    const path = this.#pick(PATHS);
    const size = String(Math.floor(this.#random() * 9000));
    const client = `10.0.${Math.floor(this.#random() * 4)}.${Math.floor(this.#random() * 250)}`;
    const host = this.#pick(['web1', 'web2']);
    const message = `${client} - - [${new Date(ms).toUTCString()}] "GET ${path} HTTP/1.1" ${status} ${size} "-" "curl/8.5.0"`;
    this.add(
      ms,
      { _type: 'access', _msg: message, level, hostname: host, app_name: 'nginx', client_ip: client, method: 'GET', path, status, response_bytes: size },
      `<${level === 'error' ? 131 : 134}>${new Date(ms).toISOString()} ${host} nginx: ${message}`,
    );
  }

  #sshd(ms: number): void {
    const failed = this.#random() < 0.3;
    const host = this.#pick(HOSTS);
    const pid = String(1000 + Math.floor(this.#random() * 9000));
    const message = `${failed ? 'Failed' : 'Accepted'} password for ${this.#pick(USERS)} from 192.0.2.${Math.floor(this.#random() * 250)} port 52${pid} ssh2`;
    this.add(
      ms,
      { _type: 'sshd', _msg: message, level: failed ? 'notice' : 'info', hostname: host, app_name: 'sshd', proc_id: pid, facility: '10', severity: failed ? '5' : '6' },
      `<86>${new Date(ms).toUTCString().slice(8, 11)} ${host} sshd[${pid}]: ${message}`,
    );
  }

  #postgres(ms: number, incident: boolean): void {
    const bad = incident && this.#random() < 0.7;
    const message = bad ? 'FATAL: remaining connection slots are reserved for superuser connections' : `checkpoint complete: wrote ${Math.floor(this.#random() * 4000)} buffers`;
    const fields = { level: bad ? 'critical' : 'info', hostname: 'db1', app_name: 'postgres', user: 'shop', database: 'orders' };
    this.add(ms, { _type: 'json', _msg: message, ...fields }, JSON.stringify({ time: new Date(ms).toISOString(), msg: message, ...fields }));
  }

  /** A service that logs JSON: its message is mostly the same, its fields say what happened. */
  #shop(ms: number, incident: boolean): void {
    const path = this.#pick(SHOP_PATHS);
    const slow = incident && path === '/api/checkout';
    const waitMs = slow ? 300 + this.#random() * 600 : this.#random() * 2;
    const warning = this.#random() < 0.05;
    const id = Math.floor(this.#random() * 2 ** 32);
    const fields = {
      path,
      method: path === '/api/checkout' ? 'POST' : 'GET',
      status: this.#random() < 0.04 ? '404' : '200',
      duration_ms: (5 + this.#random() * 40 + waitMs).toFixed(1),
      pool_wait_ms: waitMs.toFixed(1),
      pool: 'db1:5432/shop',
      trace_id: id.toString(16).padStart(8, '0'),
      'user.plan': this.#pick(['free', 'pro']),
    };
    const message = warning ? `\x1b[33mWARN\x1b[0m pool \x1b[1;31mexhausted\x1b[0m, see https://wiki.example/pool?a=1&b=2. retry` : 'request done';
    const all = { level: warning ? 'warning' : 'info', hostname: this.#pick(HOSTS), app_name: 'shop', ...fields };
    this.add(ms, { _type: 'json', _msg: message, ...all }, JSON.stringify({ time: new Date(ms).toISOString(), msg: message, ...all, user: { plan: fields['user.plan'] } }));
  }

  #kernel(ms: number): void {
    const host = this.#pick(HOSTS);
    const worse = this.#random() < 0.06;
    const message = worse ? `EXT4-fs warning (device sda1): ext4_dx_add_entry: Directory index full!` : `usb 1-1: new high-speed USB device number ${Math.floor(this.#random() * 90)}`;
    this.add(ms, { _type: 'kernel', _msg: message, level: worse ? 'warning' : 'debug', hostname: host, app_name: 'kernel', facility: '0' }, `<4>${host} kernel: ${message}`);
  }
}
