// Dashboards to begin with, for logs that Loginson knows by itself. They are copied, and then one's own to change.

import { NO_OPTIONS, type ChartOptions } from '../lib/chart/options';
import type { Dashboard, Height, Panel } from '../lib/chart/dashboards';

export interface Ready {
  title: string;
  about: string;
  dashboard: Dashboard;
}

type Shape = Partial<ChartOptions> & { width?: number; height?: Height };

function panel(title: string, query: string, { width = 6, height = 'normal', ...options }: Shape = {}): Omit<Panel, 'id'> {
  return { title, query, text: '', width, height, options: { ...NO_OPTIONS, ...options } };
}

const overTime = { kind: 'bars', step: 'auto', stack: 'stacked' } as const;
const line = { kind: 'line', step: 'auto' } as const;
const single = { kind: 'single', width: 3, height: 'small' } as const;
const top = { kind: 'top' } as const;

function ready(title: string, about: string, variables: Dashboard['variables'], panels: Omit<Panel, 'id'>[]): Ready {
  const numbered = panels.map((one, at) => ({ ...one, id: String(at + 1) }));
  return { title, about, dashboard: { id: '', title, version: 0, variables, panels: numbered } };
}

const SEVERE = '_level:in(error, critical, alert, emergency, fatal)';
const AUTH = '("Failed password" or "authentication failure" or "Invalid user" or "Accepted" or "session opened" or "sudo")';

export const READY: readonly Ready[] = [
  ready('Syslog', 'Hosts and programs: how much they write, how bad it is, what is new', [{ name: 'host', field: 'hostname' }, { name: 'app', field: 'app_name' }], [
    panel('Lines', '$host $app | stats count() lines', single),
    panel('Errors', `${SEVERE} $host $app | stats count() errors`, single),
    panel('Hosts', '$host $app hostname:* | stats count_uniq(hostname) hosts', single),
    panel('Programs', '$host $app app_name:* | stats count_uniq(app_name) programs', single),
    panel('Lines by level', '$host $app | stats by (_time:5m, _level) count() lines', overTime),
    panel('Lines by host', '$host $app | stats by (_time:5m, hostname) count() lines', overTime),
    panel('Errors by program', `${SEVERE} $host $app | stats by (app_name) count() errors`, top),
    panel('Errors by host', `${SEVERE} $host $app | stats by (hostname) count() errors`, top),
    panel('Messages of errors', `${SEVERE} $host $app | patterns 20 | fields pattern, hits, first, last`, { kind: 'table', width: 12 }),
  ]),
  ready('Web servers', 'Requests, statuses, paths and bytes of access logs', [{ name: 'host', field: 'hostname' }, { name: 'method', field: 'method' }], [
    panel('Requests', '_type:=access $host $method | stats count() requests', single),
    panel('Server errors', '_type:=access status:>=500 $host $method | stats count() errors', single),
    panel('Clients', '_type:=access $host $method | stats count_uniq(client_ip) clients', single),
    panel('Bytes sent', '_type:=access $host $method | stats sum(bytes) bytes', { ...single, unit: 'bytes' }),
    panel('Requests by status', '_type:=access $host $method | stats by (_time:5m, status) count() requests', { ...overTime, width: 8 }),
    panel('Statuses', '_type:=access $host $method | stats by (status) count() requests', { kind: 'pie', width: 4 }),
    panel('Paths with server errors', '_type:=access status:>=500 $host $method | stats by (path) count() errors', top),
    panel('Most wanted paths', '_type:=access $host $method | stats by (path) count() requests', top),
    panel('Clients', '_type:=access $host $method | stats by (client_ip) count() requests', top),
    panel('Bytes over time', '_type:=access $host $method | stats by (_time:5m) sum(bytes) bytes', { ...line, unit: 'bytes' }),
  ]),
  ready('Authentication', 'Who logs in, who fails, and from where', [{ name: 'host', field: 'hostname' }], [
    panel('Failed', '("Failed password" or "authentication failure") $host | stats count() failed', { ...single, width: 4 }),
    panel('Unknown users', '"Invalid user" $host | stats count() unknown', { ...single, width: 4 }),
    panel('Accepted', '("Accepted password" or "Accepted publickey") $host | stats count() accepted', { ...single, width: 4 }),
    panel('Over time', `${AUTH} $host | stats by (_time:5m) count() if ("Failed password" or "authentication failure") failed, count() if ("Accepted") accepted`, { ...line, width: 12 }),
    panel('Failures from', '"Failed password" $host | extract "from <address> port" | stats by (address) count() failed', top),
    panel('Failures by host', '("Failed password" or "authentication failure") $host | stats by (hostname) count() failed', top),
    panel('What sudo ran', 'app_name:=sudo $host | extract "COMMAND=<command>" | stats by (command) count() times', top),
    panel('Messages', `${AUTH} $host | patterns 20 | fields pattern, hits, first, last`, { kind: 'table' }),
  ]),
  ready('What arrives', 'Loginson itself: how many lines of which type, how large, how late, and from where', [{ name: 'type', field: '_type' }], [
    panel('Lines', '$type | stats count() lines', { ...single, width: 4 }),
    panel('Bytes', '$type | stats sum_len(_line) bytes', { ...single, width: 4, unit: 'bytes' }),
    panel('Types', '$type | stats count_uniq(_type) types', { ...single, width: 4 }),
    panel('Lines by type', '$type | stats by (_time:5m, _type) count() lines', overTime),
    panel('Bytes by type', '$type | stats by (_time:5m, _type) sum_len(_line) bytes', { ...overTime, unit: 'bytes' }),
    panel('Lines by sender', '$type | stats by (_remote_ip) count() lines', top),
    panel('Longest lines by type', '$type | len(_line) as bytes | stats by (_type) max(bytes) bytes', { ...top, unit: 'bytes' }),
  ]),
];
