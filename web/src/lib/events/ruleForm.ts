// A new rule as choices: what is counted, from which number on, for how long, and who is told. The text of the file
// follows from them.

import type { Matcher, Notifier } from '../api/alerts';
import { formatDuration, parseDuration } from '../base/time';
import { splitOutside, statsOf, timeStepMs } from '../query/stats';
import { quoteField } from '../query/logsql';

/** The choices. Durations are texts as people write them, `5m`. */
export interface RuleForm {
  /** The query without the condition: it ends with `stats`, perhaps with pipes behind it. */
  query: string;
  /** The column that the condition is about, and the fields that make an alert each. */
  value: string;
  by: string[];
  name: string;
  operator: '>' | '<';
  threshold: number;
  forText: string;
  interval: string;
  labels: Record<string, string>;
  summary: string;
  /** A line that the message shows as an example; empty for none. */
  example: string;
}

/** The choices to begin with, for the result of a query: it fires where the first number is above zero. */
export function ruleFormOf(query: string): RuleForm {
  const pipe = statsOf(query);
  const isStats = pipe?.pipe === 'stats';
  const keys = isStats ? pipe.keys.filter(({ name }) => name !== '_time') : [];
  const behind = splitOutside(isStats ? pipe.behind : '', '|').map(({ text }) => text.trim()).filter((text) => text !== '' && !/^(sort|order)\b/i.test(text));
  const by = keys.length > 0 ? `by (${keys.map(({ text }) => text).join(', ')}) ` : '';
  const parts = isStats ? [pipe.before || '*', `stats ${by}${pipe.functionsText}`, ...behind] : [query.trim() || 'error', 'stats by (hostname) count() n'];
  const names = isStats ? keys.map(({ name }) => name) : ['hostname'];
  // A template cannot name other labels in this form.
  const labels = names.filter((name) => /^[A-Za-z_]\w*$/.test(name)).map((name) => `{{ $labels.${name} }}`);
  return {
    query: parts.join('\n| '),
    value: isStats ? (pipe.functions[0]?.name ?? 'n') : 'n',
    by: names,
    name: 'NewAlert',
    operator: '>',
    threshold: 0,
    forText: '0s',
    interval: formatDuration(timeStepMs(pipe) ?? 300_000),
    labels: { severity: 'warning' },
    summary: [...labels, '{{ $value }}'].join(' '),
    example: '',
  };
}

/** A text in double quotes, as YAML reads it: JSON is YAML. */
const yaml = (text: string): string => JSON.stringify(text);
/** A text that needs no quotes stands without them, as people write it. */
const plain = (text: string): string => (/^[A-Za-z][\w.-]*$/.test(text) && !/^(true|false|null|yes|no|on|off|y|n)$/i.test(text) ? text : yaml(text));

/** A text of a log line in an annotation: what looks like a template is shown as it is. */
function untemplated(text: string): string {
  return text.replaceAll('{{', '{{ "{{" }}');
}

/** The file of a rule. */
export function ruleText(form: RuleForm): string {
  const expr = [...form.query.split('\n| '), `filter ${quoteField(form.value)}:${form.operator}${form.threshold}`];
  const labels = Object.entries(form.labels).map(([name, value]) => `          ${plain(name)}: ${plain(value)}\n`);
  const example = form.example === '' ? '' : `          example: ${yaml(untemplated(form.example))}\n`;
  return `groups:
  - name: new
    # How often the rule is evaluated, and how far it looks back.
    interval: ${form.interval}
    rules:
      - alert: ${plain(form.name)}
        expr: |
          ${expr.join('\n          | ')}
        # How long it has to be so before the alert fires.
        for: ${form.forText}
${labels.length > 0 ? `        labels:\n${labels.join('')}` : ''}        annotations:
          summary: ${yaml(form.summary)}
${example}`;
}

/** What is wrong with the choices; null if nothing is. */
export function formProblem(form: RuleForm): string | null {
  if (form.name.trim() === '') return 'Name the alert.';
  if (!Number.isFinite(form.threshold)) return 'The bound is not a number.';
  const [interval, held] = [parseDuration(form.interval), parseDuration(form.forText)];
  if (interval === null || interval <= 0) return 'How often it is evaluated is a time such as 1m.';
  return held === null ? 'How long it has to be so is a time such as 5m, or 0s.' : null;
}

// ---- what it would have done ----

/** A time in which an alert would have fired; places of the first and the last bucket. */
export interface Firing {
  from: number;
  to: number;
}

/** When a series would have fired: it is beyond the bound for as long as the rule wants. */
export function firingsOf(values: readonly (number | null)[], stepMs: number, { operator, threshold, forText }: Pick<RuleForm, 'operator' | 'threshold' | 'forText'>): Firing[] {
  const held = Math.ceil((parseDuration(forText) ?? 0) / stepMs);
  const firings: Firing[] = [];
  let from: number | null = null;
  values.forEach((value, at) => {
    const isBeyond = value !== null && (operator === '>' ? value > threshold : value < threshold);
    if (!isBeyond) {
      from = null;
      return;
    }
    from ??= at;
    if (at - from < held) return;
    const last = firings.at(-1);
    if (last && last.to === at - 1) last.to = at;
    else firings.push({ from: at, to: at });
  });
  return firings;
}

// ---- who is told ----

function fits({ name, value, isRegex, isEqual }: Matcher, labels: Readonly<Record<string, string>>): boolean | null {
  // The server decides on regular expressions; one of a notifier may take the browser long.
  if (isRegex) return null;
  return ((labels[name] ?? '') === value) === isEqual;
}

/** Whether a notifier tells alerts with these labels; null if only the server can say it. */
export function isTold({ matchers }: Pick<Notifier, 'matchers'>, labels: Readonly<Record<string, string>>): boolean | null {
  const all = (matchers ?? []).map((matcher) => fits(matcher, labels));
  return all.includes(false) ? false : all.includes(null) ? null : true;
}

/** The labels with which a notifier tells an alert; null if no label can do that. */
export function labelsFor({ matchers }: Pick<Notifier, 'matchers'>, labels: Readonly<Record<string, string>>): Record<string, string> | null {
  const next = { ...labels };
  for (const { name, value, isRegex, isEqual } of matchers ?? []) {
    if (isRegex) continue;
    if (isEqual) next[name] = value;
    else if ((next[name] ?? '') === value) return null;
  }
  return next;
}
