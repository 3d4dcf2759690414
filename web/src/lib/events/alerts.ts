// Rules, alerts and silences as the page shows them: order, matchers, strips of states, a new rule
// from a query. Pure.

import type { Alert, AlertChange, AlertState, Matcher, Rule, RuleGroup, Silence } from '../api/alerts';
import type { TimeMark } from '../chart/series';
import { timeToMs, type Span } from '../base/time';
import { ruleFormOf, ruleText } from './ruleForm';

/** A rule with the group it is in. */
export interface PlacedRule {
  /** Unique among all rules. */
  key: string;
  group: string;
  file: string;
  rule: Rule;
  state: AlertState;
  error: string;
}

const URGENCY: Record<AlertState, number> = { firing: 0, pending: 1, inactive: 2 };

/** All rules: firing ones first, then failing ones, pending ones and the rest, each by name. */
export function placedRules(groups: readonly RuleGroup[]): PlacedRule[] {
  const placed = groups.flatMap((group) =>
    group.rules.map((rule) => ({
      key: `${group.file}\n${group.name}\n${rule.id}`,
      group: group.name,
      file: group.file,
      rule,
      state: rule.state ?? 'inactive',
      error: rule.error || rule.lastError || '',
    })),
  );
  const rank = ({ state, error }: PlacedRule): number => (state === 'firing' ? 0 : error !== '' ? 1 : URGENCY[state] + 1);
  return placed.sort((a, b) => rank(a) - rank(b) || a.rule.name.localeCompare(b.rule.name) || a.key.localeCompare(b.key));
}

/** The alerts of a rule that are active: firing ones first, the oldest first. */
export function activeAlerts(rule: Rule): Alert[] {
  const active = (rule.alerts ?? []).filter(({ state }) => state !== 'inactive');
  return active.sort((a, b) => URGENCY[a.state] - URGENCY[b.state] || timeToMs(a.activeAt) - timeToMs(b.activeAt));
}

/** Changes when an alert changes its state: what happened is asked for again then. */
export function statesKey(rules: readonly PlacedRule[]): string {
  return JSON.stringify(rules.map(({ key, rule }) => [key, (rule.alerts ?? []).map(({ labels, state, activeAt }) => [labelsText(labels), state, activeAt])]));
}

/** How long a silence by one click lasts. */
export const SILENCE_CHOICES = [
  { label: '1 hour', ms: 3_600_000 },
  { label: '4 hours', ms: 4 * 3_600_000 },
  { label: '1 day', ms: 24 * 3_600_000 },
  { label: '1 week', ms: 7 * 24 * 3_600_000 },
] as const;

/** Matchers for all alerts of a rule, or for the one with these labels. */
export function matchersFor({ rule, group }: PlacedRule, labels: Record<string, string> | null): Matcher[] {
  const pairs = { alertname: rule.name, alertgroup: group, ...labels };
  return Object.entries(pairs).map(([name, value]) => ({ name, value, isRegex: false, isEqual: true }));
}

export function matchersText(matchers: readonly Matcher[]): string {
  const sign = ({ isRegex, isEqual }: Matcher): string => (isEqual ? (isRegex ? '=~' : '=') : isRegex ? '!~' : '!=');
  return matchers.map((one) => `${one.name}${sign(one)}${JSON.stringify(one.value)}`).join(', ');
}

const MATCHER = /\s*([A-Za-z_][\w.]*)\s*(=~|!~|!=|=)\s*("(?:\\.|[^"\\])*"|[^\s",]+)\s*(?:,|$)/gy;

/** Matchers as people write them: `host=~"web.*", severity!="info"`; null if the text is none. */
export function parseMatchers(text: string): Matcher[] | null {
  const found: Matcher[] = [];
  let end = 0;
  for (const match of text.matchAll(MATCHER)) {
    const [whole, name, sign, written] = match as unknown as [string, string, string, string];
    end = match.index + whole.length;
    try {
      found.push({ name, value: written.startsWith('"') ? (JSON.parse(written) as string) : written, isRegex: sign.endsWith('~'), isEqual: sign.startsWith('=') });
    } catch {
      return null;
    }
  }
  return found.length > 0 && end === text.length ? found : null;
}

/**
 * How long an acknowledged alert is told to nobody; whoever works on it for longer acknowledges it
 * again.
 */
export const ACKNOWLEDGED_MS = 4 * 3_600_000;
/** What the comment of a silence begins with that says: somebody works on this alert. */
export const ACKNOWLEDGED = 'Acknowledged';

/**
 * The silence in force by which somebody acknowledged the alert with these labels, or all of its
 * rule; null if nobody did.
 */
export function acknowledgement(placed: PlacedRule, labels: Record<string, string>, silences: readonly Silence[], nowMs: number): Silence | null {
  const pairs: Record<string, string> = { alertname: placed.rule.name, alertgroup: placed.group, ...labels };
  const covers = ({ name, value, isRegex, isEqual }: Matcher): boolean => !isRegex && isEqual && pairs[name] === value;
  const isOne = (one: Silence): boolean => one.comment.startsWith(ACKNOWLEDGED) && timeToMs(one.startsAt) <= nowMs && timeToMs(one.endsAt) > nowMs && one.matchers.every(covers);
  return silences.find(isOne) ?? null;
}

/** Silences that are in force or will be, the one that ends first first. */
export function openSilences(all: readonly Silence[], nowMs: number): Silence[] {
  return all.filter(({ endsAt }) => timeToMs(endsAt) > nowMs).sort((a, b) => timeToMs(a.endsAt) - timeToMs(b.endsAt));
}

/** Labels as a text, without those that name the rule. */
export function labelsText(labels: Record<string, string>): string {
  const shown = Object.entries(labels).filter(([name]) => name !== 'alertname' && name !== 'alertgroup');
  return shown.map(([name, value]) => `${name}=${value}`).join(', ');
}

// ---- strips of states ----

/** A run of one state in a strip; positions from 0 to 1. */
export interface StripPart {
  state: AlertState;
  from: number;
  to: number;
}

export interface Strip {
  /** The labels of the alert. */
  label: string;
  parts: StripPart[];
}

/** Rows of a chart of states; the alerts that changed most recently come first. */
export const STRIPS_MAX = 30;

/** The states of each alert over a range, from its changes in any order. */
export function stripsOf(changes: readonly AlertChange[], { startMs, endMs }: Span): { strips: Strip[]; left: number } {
  const byAlert = new Map<string, AlertChange[]>();
  for (const change of changes) {
    const label = labelsText(change.labels);
    byAlert.set(label, [...(byAlert.get(label) ?? []), change]);
  }
  const place = (time: string): number => Math.min(1, Math.max(0, (timeToMs(time) - startMs) / Math.max(1, endMs - startMs)));
  const strips = [...byAlert].map(([label, list]) => {
    const sorted = [...list].sort((a, b) => timeToMs(a.time) - timeToMs(b.time));
    const parts: StripPart[] = [];
    let state = sorted[0]?.from ?? 'inactive';
    let from = 0;
    for (const change of sorted) {
      const to = place(change.time);
      if (state !== 'inactive' && to > from) parts.push({ state, from, to });
      state = change.to;
      from = to;
    }
    if (state !== 'inactive' && from < 1) parts.push({ state, from, to: 1 });
    return { label, parts, last: from };
  });
  strips.sort((a, b) => b.last - a.last || a.label.localeCompare(b.label));
  return { strips: strips.slice(0, STRIPS_MAX).map(({ label, parts }) => ({ label, parts })), left: Math.max(0, strips.length - STRIPS_MAX) };
}

/** What a test of a rule found, in words. */
export function testText(changes: readonly AlertChange[]): string {
  const fired = changes.filter(({ to }) => to === 'firing').length;
  const pending = changes.some(({ to }) => to === 'pending');
  if (fired === 0) return pending ? 'It would have been pending, and never fired.' : 'It would not have fired.';
  return `It would have fired ${fired === 1 ? 'once' : `${fired} times`}.`;
}

// ---- rule files ----

const FILE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,98}\.ya?ml$/;

/** What is wrong with the name of a new file; null if nothing is. */
export function fileProblem(file: string, taken: readonly string[]): string | null {
  if (!FILE.test(file)) return 'A name is letters, digits, dots, dashes and underscores, and ends with .yml.';
  return taken.includes(file) ? 'There is a file of this name already. Open that one, or choose another name.' : null;
}

/** A rule for the result of a query: fires where the first number is above zero. */
export function ruleFor(query: string): string {
  return ruleText(ruleFormOf(query));
}

// ---- marks on the time axis ----

/** The marks of changes: where alerts began to fire, and where they ended. */
export function marksOf(changes: readonly AlertChange[]): TimeMark[] {
  return changes
    .filter(({ from, to }) => (to === 'firing') !== (from === 'firing'))
    .map(({ time, rule, labels, to }) => {
      const detail = labelsText(labels);
      return { ms: timeToMs(time), text: `${rule}${detail === '' ? '' : ` (${detail})`} ${to === 'firing' ? 'fires' : 'has ended'}`, tone: to === 'firing' ? ('bad' as const) : ('good' as const) };
    });
}
