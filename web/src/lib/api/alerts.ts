// Alerts as typed calls. Nothing here keeps state; docs/api.md describes the API, which speaks of
// rules as Prometheus does and of silences as Alertmanager does.

import { ApiError, call, json, spanParams, type CallOptions } from './call';
import type { Span } from '../base/time';

export type AlertState = 'inactive' | 'pending' | 'firing';

export interface Alert {
  labels: Record<string, string>;
  annotations: Record<string, string>;
  state: AlertState;
  activeAt: string;
  value: string | number;
  /** Whether a silence covers it. */
  silenced?: boolean;
}

export interface Rule {
  /** Stable over changes of its file; unique within its group. */
  id: string;
  type: 'alerting' | 'recording';
  name: string;
  query: string;
  /** Seconds for which an alert has to be active before it fires. */
  duration?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  state?: AlertState;
  alerts?: Alert[];
  /** Why the last evaluation failed; empty if it did not. */
  error?: string;
  lastError?: string;
  lastEvaluation?: string;
  /** Whether silences cover all of its alerts. */
  silenced?: boolean;
}

export interface RuleGroup {
  name: string;
  file: string;
  /** Seconds. */
  interval: number;
  rules: Rule[];
}

/** A file of rules; those of the server's folder are changed there. */
export interface RuleFile {
  name: string;
  provisioned: boolean;
  /** Why it is left out. */
  error: string | null;
}

/** A change of the state of one alert. */
export interface AlertChange {
  time: string;
  rule: string;
  group: string;
  labels: Record<string, string>;
  from: AlertState;
  to: AlertState;
  /** A text for what is no number in JSON, such as `NaN`. */
  value: number | string;
  annotations: Record<string, string>;
}

export interface Matcher {
  name: string;
  value: string;
  isRegex: boolean;
  isEqual: boolean;
}

export interface Silence {
  id: string;
  matchers: Matcher[];
  startsAt: string;
  endsAt: string;
  createdBy: string;
  comment: string;
  status?: { state: 'pending' | 'active' | 'expired' };
}

/** Who is told about alerts, and how that goes. */
export interface Notifier {
  name: string;
  kind: string;
  /** It is in the configuration file; an older server does not say it, and has no others. */
  provided?: boolean;
  /** Conditions on the labels of the alerts that it tells; an older server does not say them. */
  matchers?: Matcher[];
  state: 'ok' | 'failing';
  waiting: number;
  sent_total: number;
  given_up_total: number;
  refused_total: number;
  /** Why the last attempt failed. */
  last_error: string | null;
  last_error_time: string | null;
}

/** What became of the test of a notifier. */
export interface NotifierTest {
  name: string;
  delivered: boolean;
  error: string | null;
}

/** What rules would have done in the past. */
export interface RulesTest {
  rules: TestedRule[];
  /** There was more to evaluate or to tell than the server allows. */
  truncated: boolean;
}

export interface TestedRule {
  rule: string;
  group: string;
  evaluations: number;
  changes: AlertChange[];
  error?: string | null;
}

export async function rules(options: CallOptions = {}): Promise<RuleGroup[]> {
  const answer = await json<{ data: { groups: RuleGroup[] } }>('/api/v1/rules', {}, options);
  return answer.data.groups;
}

/** Changes of states in a range, newest first; of all rules, unless one is named. */
export async function alertHistory(span: Span, limit: number, rule: string | null, options: CallOptions = {}): Promise<AlertChange[]> {
  const answer = await json<{ changes: AlertChange[] }>('/api/v1/alerts/history', { ...spanParams(span), rule, limit }, options);
  return answer.changes;
}

export function silences(options: CallOptions = {}): Promise<Silence[]> {
  return json('/api/v1/silences', {}, options);
}

/** Silences what the matchers match; returns the id of the silence. */
export async function silence(one: Omit<Silence, 'id' | 'status'>): Promise<string> {
  const response = await call('/api/v1/silences', {}, { body: { type: 'application/json', text: JSON.stringify(one) } }, 'POST');
  return ((await response.json()) as { id: string }).id;
}

/** Ends a silence. */
export async function endSilence(id: string): Promise<void> {
  await call(`/api/v1/silences/${encodeURIComponent(id)}`, {}, {}, 'DELETE');
}

/** The notifiers; none on a server that is older than this page. */
export async function notifiers(options: CallOptions = {}): Promise<Notifier[]> {
  try {
    return (await json<{ notifiers: Notifier[] }>('/api/v1/alerts/notifiers', {}, options)).notifiers;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return [];
    throw error;
  }
}

/** Sends a test notification. */
export async function testNotifier(name: string): Promise<NotifierTest> {
  const response = await call(`/api/v1/alerts/notifiers/${encodeURIComponent(name)}/test`, {}, {}, 'POST');
  return (await response.json()) as NotifierTest;
}

const receiverPath = (name: string): string => `/api/v1/alerts/notifiers/${encodeURIComponent(name)}`;

/** A receiver that can be changed, with the names of its secrets. */
export function receiver(name: string): Promise<Record<string, unknown>> {
  return json(receiverPath(name), {}, {});
}

/** Makes or changes a receiver. */
export async function saveReceiver(name: string, body: Record<string, unknown>): Promise<void> {
  await call(receiverPath(name), {}, { body: { type: 'application/json', text: JSON.stringify(body) } }, 'PUT');
}

export async function deleteReceiver(name: string): Promise<void> {
  await call(receiverPath(name), {}, {}, 'DELETE');
}

export async function ruleFiles(options: CallOptions = {}): Promise<RuleFile[]> {
  return (await json<{ files: RuleFile[] }>('/api/v1/alerts/rules', {}, options)).files;
}

const filePath = (file: string): string => `/api/v1/alerts/rules/${encodeURIComponent(file)}`;

export async function ruleFile(file: string, options: CallOptions = {}): Promise<string> {
  return (await call(filePath(file), {}, options)).text();
}

/** The text of a file; null if it is empty, or there is none. */
export async function keptRuleFile(file: string): Promise<string | null> {
  try {
    return (await ruleFile(file)) || null;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Saves a file of rules, which run at once. An error names the line. */
export async function saveRuleFile(file: string, text: string): Promise<void> {
  await call(filePath(file), {}, { body: { type: 'text/yaml', text } }, 'PUT');
}

export async function deleteRuleFile(file: string): Promise<void> {
  await call(filePath(file), {}, {}, 'DELETE');
}

/** Runs rules over the past; nobody is notified. */
export async function testRules(text: string, span: Span, options: CallOptions = {}): Promise<RulesTest> {
  const start = new Date(span.startMs).toISOString();
  const body = { type: 'application/json', text: JSON.stringify({ rules: text, start, end: new Date(span.endMs).toISOString() }) };
  const response = await call('/api/v1/alerts/test', {}, { ...options, body }, 'POST');
  return (await response.json()) as RulesTest;
}
