// Answers of the alerts' API, made in the test: rules that fire cannot be waited for.

import type { Page } from '@playwright/test';
import type { AlertChange, Notifier, RuleGroup, Silence } from '../src/lib/api/alerts';

const ago = (minutes: number): string => new Date(Date.now() - minutes * 60_000).toISOString();

const alert = (host: string, state: 'firing' | 'pending', value: number) => ({
  labels: { alertname: 'ErrorsOfWeb', alertgroup: 'web', host, severity: 'page' },
  annotations: { summary: `${host} has ${value} errors` },
  state,
  activeAt: ago(state === 'firing' ? 20 : 2),
  value: String(value),
});

function change(minutes: number, host: string, from: AlertChange['from'], to: AlertChange['to']): AlertChange {
  return { time: ago(minutes), rule: 'ErrorsOfWeb', group: 'web', labels: { alertname: 'ErrorsOfWeb', host }, from, to, value: 12, annotations: {} };
}

export const CHANGES = [change(5, 'web2', 'firing', 'inactive'), change(20, 'web1', 'pending', 'firing'), change(22, 'web1', 'inactive', 'pending'), change(30, 'web2', 'inactive', 'firing')];

export class AlertsMock {
  silences: Silence[] = [];
  notifiers: Notifier[] = [];
  /** Receivers that can be changed, as they were sent, by name. */
  receivers = new Map<string, Record<string, unknown>>();
  files = new Map([['web.yml', 'groups:\n  - name: web\n    rules:\n      - alert: ErrorsOfWeb\n        expr: error | stats by (host) count() n\n']]);
  /** The file that stands in the folder of the server. */
  provisioned = '';
  /** Bodies of tests. */
  tested: { rules: string; start: string; end: string }[] = [];

  groups(): RuleGroup[] {
    const silenced = this.silences.some(({ endsAt }) => Date.parse(endsAt) > Date.now());
    const query = '_type:="access" status:>=500 | stats by (host) count() n | filter n:>10';
    return [...this.files.keys()].map((file, at) => ({
      name: at === 0 ? 'web' : file,
      file,
      interval: 60,
      rules:
        at === 0
          ? [
              { id: '0', type: 'alerting', name: 'AllQuiet', query: 'panic | stats count() n | filter n:>0', duration: 0, state: 'inactive', alerts: [] },
              { id: '1', type: 'alerting', name: 'Broken', query: 'x | stats count() n', state: 'inactive', alerts: [], lastError: 'the query took longer than 60 s; narrow its filter' },
              { id: '2', type: 'alerting', name: 'ErrorsOfWeb', query, duration: 120, state: 'firing', alerts: [alert('web1', 'firing', 42.5), alert('web3', 'pending', 11)], silenced },
              { id: '3', type: 'recording', name: 'requests', query: '* | stats count() n' },
            ]
          : [{ id: '0', type: 'alerting', name: 'NewAlert', query: 'x | stats count() n', state: 'inactive', alerts: [] }],
    }));
  }

  async serve(page: Page): Promise<void> {
    await page.route('**/api/v1/rules', (route) => route.fulfill({ json: { status: 'success', data: { groups: this.groups() } } }));
    await page.route('**/api/v1/alerts/history?*', (route) => route.fulfill({ json: { changes: CHANGES } }));
    await page.route('**/api/v1/alerts/notifiers', (route) => route.fulfill({ json: { notifiers: this.notifiers } }));
    await page.route('**/api/v1/alerts/notifiers/*/test', (route) => {
      const name = route.request().url().split('/').at(-2) ?? '';
      const error = this.notifiers.find((one) => one.name === name)?.last_error ?? null;
      return route.fulfill({ json: { name, delivered: error === null, error } });
    });
    await page.route('**/api/v1/alerts/notifiers/*', (route) => {
      const name = decodeURIComponent(route.request().url().split('/').at(-1) ?? '');
      const method = route.request().method();
      if (method === 'GET') {
        const { secrets, ...rest } = this.receivers.get(name) ?? {};
        return route.fulfill({ json: { ...rest, name, secrets: Object.keys(secrets ?? {}) } });
      }
      const counts = { waiting: 0, sent_total: 0, given_up_total: 0, refused_total: 0, last_error: null, last_error_time: null };
      this.notifiers = this.notifiers.filter((one) => one.name !== name);
      if (method === 'PUT') {
        const sent = route.request().postDataJSON() as Record<string, unknown>;
        if (JSON.stringify(sent).includes('$nothing')) return route.fulfill({ status: 400, json: { error: "alerts.notifiers.x.text: '$nothing' is not supported" } });
        const secrets = { ...(this.receivers.get(name)?.['secrets'] as object | undefined), ...(sent['secrets'] as object) };
        this.receivers.set(name, { ...sent, secrets });
        const kind = ['slack', 'matrix', 'ntfy'].find((one) => one in sent) ?? 'webhook';
        this.notifiers = [...this.notifiers, { name, kind, provided: false, state: 'ok', ...counts }];
      } else this.receivers.delete(name);
      return route.fulfill({ json: { name } });
    });
    await page.route('**/api/v1/silences', async (route) => {
      if (route.request().method() === 'GET') return route.fulfill({ json: this.silences });
      const id = `s${this.silences.length}`;
      this.silences.push({ ...(route.request().postDataJSON() as Silence), id });
      return route.fulfill({ json: { id } });
    });
    await page.route('**/api/v1/silences/*', async (route) => {
      const id = route.request().url().split('/').at(-1);
      this.silences = this.silences.map((one) => (one.id === id ? { ...one, endsAt: ago(0) } : one));
      return route.fulfill({ json: {} });
    });
    await page.route('**/api/v1/alerts/rules', (route) => route.fulfill({ json: { files: [...this.files.keys()].map((name) => ({ name, provisioned: name === this.provisioned, error: null })) } }));
    await page.route('**/api/v1/alerts/test', async (route) => {
      const asked = route.request().postDataJSON() as { rules: string; start: string; end: string };
      this.tested.push(asked);
      const rules = [{ rule: 'NewAlert', group: 'new', evaluations: 60, changes: CHANGES }];
      await route.fulfill({ json: { rules, truncated: false } });
    });
    await page.route('**/api/v1/alerts/rules/*', async (route) => {
      const file = decodeURIComponent(route.request().url().split('/').at(-1) ?? '');
      const method = route.request().method();
      if (method === 'GET') return route.fulfill({ contentType: 'text/yaml', body: this.files.get(file) ?? '' });
      if (method === 'DELETE') {
        this.files.delete(file);
        return route.fulfill({ json: {} });
      }
      const text = route.request().postData() ?? '';
      const line = text.split('\n').findIndex((one) => one.includes('exprr'));
      if (line >= 0) return route.fulfill({ status: 400, json: { error: 'unknown key "exprr"; the query of a rule is "expr"', line: line + 1 } });
      this.files.set(file, text);
      return route.fulfill({ json: {} });
    });
  }
}
