// The form of a receiver of alerts: which fields each kind has, and what is sent to the server.

import { matchersText, parseMatchers } from './alerts';

export type ReceiverKind = 'slack' | 'teams' | 'email' | 'pagerduty' | 'opsgenie' | 'ntfy' | 'matrix' | 'webhook' | 'alertmanager';

/** A receiver as the API has it: a table of its kind among other members. */
export type Receiver = Record<string, unknown>;

interface Field {
  key: string;
  label: string;
  /** A secret goes to the server and never comes back. */
  isSecret?: boolean;
  isRequired?: boolean;
  placeholder?: string;
  /** Several texts, with commas between them. */
  isList?: boolean;
  isNumber?: boolean;
  /** What may be chosen; the first one is the default of the server. */
  choices?: readonly string[];
}

interface KindOf {
  kind: ReceiverKind;
  label: string;
  fields: readonly Field[];
  /** Whether its subject and text can be templates. */
  hasTexts: boolean;
}

const password: readonly Field[] = [
  { key: 'user', label: 'User' },
  { key: 'password', label: 'Password', isSecret: true },
];
const token: Field = { key: 'token', label: 'Token', isSecret: true };
const severity: Field = { key: 'severity', label: 'Severity, if no label says it', choices: ['error', 'critical', 'warning', 'info'] };
const hook = (placeholder: string): Field => ({ key: 'url', label: 'Address of the webhook', isSecret: true, isRequired: true, placeholder });

export const KINDS: readonly KindOf[] = [
  { kind: 'slack', label: 'Slack', hasTexts: true, fields: [hook('https://hooks.slack.com/services/…')] },
  { kind: 'teams', label: 'Microsoft Teams', hasTexts: true, fields: [hook('https://….logic.azure.com/workflows/…')] },
  {
    kind: 'email',
    label: 'Mail',
    hasTexts: true,
    fields: [
      { key: 'server', label: 'Mail server', isRequired: true, placeholder: 'mail.example.com:587' },
      { key: 'tls', label: 'Encryption', choices: ['starttls', 'tls', 'none'] },
      { key: 'from', label: 'From', isRequired: true, placeholder: 'Logs <logs@example.com>' },
      { key: 'to', label: 'To', isRequired: true, isList: true, placeholder: 'ops@example.com, …' },
      ...password,
    ],
  },
  { kind: 'pagerduty', label: 'PagerDuty', hasTexts: true, fields: [{ key: 'key', label: 'Integration key (Events API v2)', isSecret: true, isRequired: true }, severity, { key: 'url', label: 'Address', placeholder: 'https://events.pagerduty.com' }] },
  { kind: 'opsgenie', label: 'Opsgenie', hasTexts: true, fields: [{ key: 'key', label: 'API key', isSecret: true, isRequired: true }, severity, { key: 'url', label: 'Address', placeholder: 'https://api.opsgenie.com' }] },
  {
    kind: 'ntfy',
    label: 'ntfy',
    hasTexts: true,
    fields: [{ key: 'topic', label: 'Topic', isRequired: true }, { key: 'url', label: 'Server', placeholder: 'https://ntfy.sh' }, { key: 'priority', label: 'Priority, 1 to 5', isNumber: true, placeholder: '4' }, token, ...password],
  },
  {
    kind: 'matrix',
    label: 'Matrix',
    hasTexts: true,
    fields: [
      { key: 'url', label: 'Homeserver', isRequired: true, placeholder: 'https://matrix.example.com' },
      { key: 'room', label: 'Id of the room', isRequired: true, placeholder: '!room:example.com' },
      { ...token, label: 'Access token', isRequired: true },
    ],
  },
  { kind: 'webhook', label: 'Webhook', hasTexts: false, fields: [{ key: 'url', label: 'Address', isSecret: true, isRequired: true }, token, ...password] },
  { kind: 'alertmanager', label: 'Alertmanager', hasTexts: false, fields: [{ key: 'urls', label: 'Address', isRequired: true, isList: true, placeholder: 'http://alertmanager:9093' }, token, ...password] },
];

export interface ReceiverForm {
  name: string;
  kind: ReceiverKind;
  /** Texts by the keys of the kind; those of secrets are empty unless they are given anew. */
  values: Readonly<Record<string, string>>;
  /** The secrets that the server has. */
  kept: readonly string[];
  matchers: string;
  subject: string;
  text: string;
  repeat: string;
  sendsResolved: boolean;
  hasLine: boolean;
  /** Members that the form does not show; they are sent as they came. */
  rest: Readonly<Record<string, unknown>>;
}

export const NEW_RECEIVER: ReceiverForm = { name: '', kind: 'slack', values: {}, kept: [], matchers: '', subject: '', text: '', repeat: '', sendsResolved: true, hasLine: false, rest: {} };

export function kindOf(kind: ReceiverKind): KindOf {
  return KINDS.find((one) => one.kind === kind) ?? KINDS[0]!;
}

/** The name of a kind for people. */
export function kindLabel(kind: string): string {
  return KINDS.find((one) => one.kind === kind)?.label ?? kind;
}

const text = (value: unknown): string => (typeof value === 'string' ? value : typeof value === 'number' ? String(value) : Array.isArray(value) ? value.join(', ') : '');

/** The form of a receiver that the server has. */
export function receiverFormOf(receiver: Receiver): ReceiverForm {
  const kind = KINDS.find((one) => one.kind in receiver)?.kind ?? 'webhook';
  const { [kind]: table, name, matchers, subject, text: body, repeat_interval, send_resolved, sample_line, secrets, ...rest } = receiver;
  const values = Object.fromEntries(Object.entries((table ?? {}) as Record<string, unknown>).map(([key, value]) => [key, text(value)]));
  return {
    name: text(name),
    kind,
    values,
    kept: Array.isArray(secrets) ? secrets.map(text) : [],
    matchers: text(matchers),
    subject: text(subject),
    text: text(body),
    repeat: text(repeat_interval),
    sendsResolved: send_resolved !== false,
    hasLine: sample_line === true,
    rest,
  };
}

/** What keeps the form from being sent; null if nothing does. The server checks the rest. */
export function receiverProblem(form: ReceiverForm): string | null {
  if (!/^[a-z0-9_-]{1,64}$/.test(form.name)) return 'Give it a name of lower-case letters, digits, “-” or “_”.';
  const { fields } = kindOf(form.kind);
  const missing = fields.find(({ key, isRequired, isSecret }) => isRequired && !form.values[key]?.trim() && !(isSecret && form.kept.includes(key)));
  if (missing) return `Fill in “${missing.label}”.`;
  if (form.matchers.trim() !== '' && parseMatchers(form.matchers) === null) return 'Write which alerts, such as severity="page", or leave it empty for all of them.';
  return null;
}

/** The matchers as texts, one each. */
function matcherTexts(written: string): string[] {
  const parsed = written.trim() === '' ? [] : (parseMatchers(written) ?? []);
  return parsed.map((one) => matchersText([one]));
}

/** What is sent to the server. A secret that is not given stays as it is. */
export function receiverBody(form: ReceiverForm): Receiver {
  const { fields, hasTexts } = kindOf(form.kind);
  const table: Record<string, unknown> = {};
  const secrets: Record<string, string> = {};
  for (const { key, isSecret, isList, isNumber } of fields) {
    const value = form.values[key]?.trim() ?? '';
    if (value === '') continue;
    if (isSecret) secrets[key] = value;
    else if (isList) table[key] = value.split(',').map((one) => one.trim()).filter((one) => one !== '');
    else table[key] = isNumber ? Number(value) : value;
  }
  const written = (name: string, value: string): Receiver => (value.trim() === '' ? {} : { [name]: value });
  return {
    ...form.rest,
    matchers: matcherTexts(form.matchers),
    send_resolved: form.sendsResolved,
    sample_line: form.hasLine,
    ...written('repeat_interval', form.repeat),
    ...(hasTexts ? { ...written('subject', form.subject), ...written('text', form.text) } : {}),
    [form.kind]: table,
    secrets,
  };
}
