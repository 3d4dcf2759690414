// The servers that tests run against. Each worker has its own, on free ports and with its own
// folder, so that no test meets what a test beside it has written.
//
// LOGINSON_BIN names the binary whose servers are started: one with an hour of lines of the demo
// generator, its incident and what arrives meanwhile, and, for the login, one with users over
// HTTPS. LOGINSON_URL names a server that runs already, with such lines. Without either, the built
// page is served with dev/mock.ts in place of a server.
//
// With LOGINSON_PREVIEW=1 the built page of this folder is served in front of the server, in place
// of the page in the binary.

import { spawn, type ChildProcess, execFileSync } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTcpServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const BIN = process.env['LOGINSON_BIN'];
const URL_GIVEN = process.env['LOGINSON_URL'];

/** Against a real server, not dev/mock.ts. */
export const real = BIN !== undefined || URL_GIVEN !== undefined;
export const hasBinary = BIN !== undefined;
/** Whether the page of this folder is served, and has to be built. */
export const servesPage = !real || process.env['LOGINSON_PREVIEW'] !== undefined;
/**
 * The password of all users of the server with users: ann (operate), rob (read) and ship (ingest).
 */
export const PASSWORD = 'correct horse battery';

export interface Server {
  url: string;
  stop: () => Promise<void>;
}

/** Enough for every chart to have something in each bar; each query over the hour reads all lines. */
const LINES_PER_S = 25;

const WEB = fileURLToPath(new URL('..', import.meta.url));
/** Of playwright.config.ts; what processes write stands there after a run. */
const LOGS = join(WEB, 'test-results');

/** A folder of its own, and processes that end with it. */
class Processes {
  readonly folder = mkdtempSync(join(tmpdir(), 'loginson-e2e-'));
  #running: ChildProcess[] = [];

  start(name: string, args: readonly string[]): ChildProcess {
    mkdirSync(LOGS, { recursive: true });
    const log = openSync(join(LOGS, `${name}-${process.pid}.log`), 'a');
    const child = spawn(resolve(BIN as string), args, { stdio: ['ignore', log, log] });
    closeSync(log);
    this.#running.push(child);
    return child;
  }

  /** Starts a server and returns what its ready file says. */
  async serve(name: string, args: readonly string[]): Promise<Record<string, string>> {
    const ready = join(this.folder, `${name}.json`);
    const listen = args.includes('--http-listen') ? [] : ['--http-listen', '127.0.0.1:0'];
    const child = this.start(name, ['serve', '--data-dir', join(this.folder, name), ...listen, '--ready-file', ready, ...args]);
    while (!existsSync(ready) || readFileSync(ready, 'utf8') === '') {
      if (child.exitCode !== null) throw new Error(`the server ended with ${child.exitCode}; ${LOGS} has its log`);
      await pause(50);
    }
    return JSON.parse(readFileSync(ready, 'utf8')) as Record<string, string>;
  }

  async stop(): Promise<void> {
    for (const child of this.#running.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = new Promise((done) => child.once('exit', done));
      child.kill();
      await ended;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** A server with lines of the demo generator; they may still arrive. */
export async function startServer(): Promise<Server> {
  const behind = BIN === undefined ? { url: URL_GIVEN, stop: async () => {} } : await startBinary();
  if (!servesPage) return behind as Server;
  const page = await servePage(behind.url);
  return {
    url: page.url,
    stop: async () => {
      await page.stop();
      await behind.stop();
    },
  };
}

/** The mails that the server of this worker has sent, with their commands of SMTP. */
export const mails: string[] = [];

/** A mail server that takes everything; returns its port. */
async function startMailServer(): Promise<{ port: number; stop: () => void }> {
  const server = createTcpServer((socket) => {
    let [text, isData] = ['', false];
    socket.on('error', () => {});
    socket.write('220 test\r\n');
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
      for (;;) {
        const end = text.indexOf(isData ? '\r\n.\r\n' : '\r\n');
        if (end < 0) return;
        const part = text.slice(0, end);
        text = text.slice(end + (isData ? 5 : 2));
        if (isData) mails.push(part);
        const begins = !isData && part.toUpperCase().startsWith('DATA');
        socket.write(begins ? '354 go\r\n' : '250 ok\r\n');
        isData = begins;
      }
    });
  }).listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  return { port: (server.address() as AddressInfo).port, stop: () => server.close() };
}

/** The configuration of a receiver of mails that is told of no alert. */
const mailConfig = (port: number): string =>
  `[[alerts.notifiers]]\nname = "mail"\nmatchers = ['never="1"']\n` +
  `email = { server = "127.0.0.1:${port}", tls = "none", from = "logs@example.com", to = ["ops@example.com"] }\n`;

async function startBinary(): Promise<Server> {
  const processes = new Processes();
  const mailServer = await startMailServer();
  const config = join(processes.folder, 'server.toml');
  writeFileSync(config, mailConfig(mailServer.port));
  const ready = await processes.serve('server', ['--config', config, '--syslog-tcp-listen', '127.0.0.1:0', '--syslog-udp-listen', '127.0.0.1:0']);
  processes.start('generator', ['generate', '--to', `tcp://${ready['syslog_tcp']}`, '--rate', String(LINES_PER_S), '--backfill', '1h', '--incident', 'demo', '--seed', '1']);
  return {
    url: `http://${ready['http']}`,
    stop: async () => {
      await processes.stop();
      mailServer.stop();
    },
  };
}

/** The built page, in front of a server or of dev/mock.ts. */
async function servePage(behind: string | undefined): Promise<Server> {
  const { preview } = await import('vite');
  // vite.config.ts reads it.
  if (behind !== undefined) process.env['LOGINSON_URL'] = behind;
  const served = await preview({ root: WEB, logLevel: 'error', preview: { port: 0, strictPort: false } });
  const { port } = served.httpServer.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, stop: () => served.close() };
}

/** The files of a certificate for this machine. */
function makeCertificate(folder: string): { key: string; certificate: string } {
  const [key, certificate] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1', '-addext', 'basicConstraints=critical,CA:FALSE'];
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-noenc', '-days', '2', '-keyout', key, '-out', certificate, ...names], { stdio: 'ignore' });
  return { key, certificate };
}

/** A server with users, over HTTPS. */
export async function startSecured(): Promise<Server> {
  const processes = new Processes();
  const at = (name: string): string => join(processes.folder, name);
  const { key, certificate } = makeCertificate(processes.folder);
  const users = [['ann', 'operate'], ['rob', 'read'], ['ship', 'ingest']].map(([name, role]) => {
    const hash = execFileSync(resolve(BIN as string), ['hash-password'], { input: `${PASSWORD}\n`, encoding: 'utf8' }).trim();
    return `[[users]]\nname = "${name}"\nrole = "${role}"\npassword_hash = "${hash}"\n`;
  });
  writeFileSync(at('secured.toml'), `[http_tls]\ncertificate = "${certificate}"\nkey = "${key}"\n${users.join('')}`);
  const ready = await processes.serve('secured', ['--config', at('secured.toml'), '--syslog-tcp-listen', 'off', '--syslog-udp-listen', 'off']);
  return { url: `https://${ready['http']}`, stop: () => processes.stop() };
}

/**
 * A port that is free at the moment; the addresses of both sides of a login by a provider are fixed
 * before either starts.
 */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((done) => server.once('listening', done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

/** The groups of the users of the provider; the name of a user is also that of the login. */
const GROUPS: Record<string, string[]> = { olga: ['ops', 'staff'], sam: ['staff'], carl: ['cooks'] };

/**
 * A server over HTTPS whose users log in by the package `oidc-provider` and have no passwords here:
 * olga (operate), sam (read), and carl, whom no group lets in.
 */
export async function startWithProvider(): Promise<Server> {
  // Another process may have taken the port before the server listens there.
  for (let tries = 1; ; tries++) {
    try {
      return await tryWithProvider();
    } catch (error) {
      if (tries === 10) throw error;
    }
  }
}

async function tryWithProvider(): Promise<Server> {
  const processes = new Processes();
  const { key, certificate } = makeCertificate(processes.folder);
  const url = `https://127.0.0.1:${await freePort()}`;
  const issuer = createServer().listen(0, '127.0.0.1');
  await new Promise((done) => issuer.once('listening', done));
  const issuerUrl = `http://localhost:${(issuer.address() as AddressInfo).port}`;
  const { default: Provider } = await import('oidc-provider');
  const provider = new Provider(issuerUrl, {
    clients: [
      {
        client_id: 'loginson',
        client_secret: 'the secret of the client',
        redirect_uris: [`${url}/api/v1/login/oidc/corp/callback`],
        post_logout_redirect_uris: [`${url}/`],
        grant_types: ['authorization_code', 'refresh_token'],
      },
    ],
    claims: { openid: ['sub'], profile: ['preferred_username'], groups: ['groups'] },
    scopes: ['openid', 'profile', 'groups', 'offline_access'],
    findAccount: (_: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id, preferred_username: id, groups: GROUPS[id] ?? [] }),
    }),
    pkce: { required: () => true },
    cookies: { keys: ['a key of the test'] },
  });
  issuer.on('request', provider.callback());
  const file = (name: string, text: string): string => {
    writeFileSync(join(processes.folder, name), text);
    return join(processes.folder, name);
  };
  const config = file(
    'provider.toml',
    `[http_tls]\ncertificate = "${certificate}"\nkey = "${key}"\n[access]\nexternal_url = "${url}"\n` +
      `[[access.oidc]]\nname = "corp"\nissuer = "${issuerUrl}"\nclient_id = "loginson"\n` +
      `client_secret_file = "${file('client.secret', 'the secret of the client')}"\n` +
      'scopes = ["openid", "profile", "groups", "offline_access"]\nrecheck = "1s"\n' +
      '[[access.groups]]\ngroup = "ops"\nrole = "operate"\n[[access.groups]]\ngroup = "staff"\nrole = "read"\n',
  );
  const stop = async (): Promise<void> => {
    await processes.stop();
    issuer.closeAllConnections();
    issuer.close();
  };
  try {
    await processes.serve('provider', ['--config', config, '--http-listen', new URL(url).host, '--syslog-tcp-listen', 'off', '--syslog-udp-listen', 'off']);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, stop };
}

export interface WithSink extends Server {
  /** From now on the destination takes documents. */
  accept: () => void;
  /** How many it took. */
  taken: () => number;
}

/** A server with the sink `errors`, whose destination rejects every document until it is told to take them. */
export async function startWithSink(): Promise<WithSink> {
  const processes = new Processes();
  let takes = false;
  let taken = 0;
  const destination = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      if (takes) taken += body.trim().split('\n').length;
      response.writeHead(takes ? 200 : 422).end();
    });
  }).listen(0, '127.0.0.1');
  await new Promise((done) => destination.once('listening', done));
  const config = join(processes.folder, 'sink.toml');
  const url = `http://127.0.0.1:${(destination.address() as AddressInfo).port}/`;
  writeFileSync(config, `[[sinks]]\nname = "errors"\nof = "lines"\nfilter = "level:error"\nurls = ["${url}"]\ncompression = "none"\n[sinks.json_lines]\n`);
  const ready = await processes.serve('sink', ['--config', config, '--syslog-tcp-listen', 'off', '--syslog-udp-listen', 'off']);
  const page = servesPage ? await servePage(`http://${ready['http']}`) : null;
  return {
    url: page?.url ?? `http://${ready['http']}`,
    accept: () => void (takes = true),
    taken: () => taken,
    stop: async () => {
      await page?.stop();
      await processes.stop();
      destination.closeAllConnections();
      destination.close();
    },
  };
}
