// Rules, notifiers and silences of the server, polled while the view *Alerts* is open; changes of alerts in a
// range; and texts of rule files that were not saved yet, which outlive a change of the view.

import { alertHistory, endSilence, notifiers, ruleFiles, rules, silence, silences, type AlertChange, type Matcher, type Notifier, type RuleFile, type RuleGroup, type Silence } from '../api/alerts';
import { isAbort, type ApiError } from '../api/call';
import type { RuleForm } from '../events/ruleForm';
import { toApiError } from './lines.svelte';
import { session } from './session.svelte';
import type { Span } from '../base/time';

const POLL_MS = 5000;
/** Drafts that are kept; the one that was changed longest ago is dropped. */
const DRAFTS_MAX = 20;
/** Changes of a range that are shown; the newest ones. */
export const CHANGES_MAX = 1000;

class AlertsState {
  /** Null until the server has answered. */
  groups = $state.raw<RuleGroup[] | null>(null);
  silences = $state.raw<Silence[]>([]);
  files = $state.raw<RuleFile[]>([]);
  notifiers = $state.raw<Notifier[]>([]);
  error = $state.raw<ApiError | null>(null);
  /** Texts by file, the oldest first. */
  drafts = $state.raw<ReadonlyMap<string, string>>(new Map());
  /** The choices of new rules, by the draft that they make. */
  forms = $state.raw<ReadonlyMap<string, RuleForm>>(new Map());
  #polls = 0;
  /** The texts that drafts were begun from, null for new files: saving must not replace any other one. */
  #bases = new Map<string, string | null>();

  /** The server is older than this page. */
  get isAbsent(): boolean {
    return this.error?.status === 404;
  }

  /** Polls until the returned function is called. A hidden page does not poll. */
  start(): () => void {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const controller = new AbortController();
    const tick = async (): Promise<void> => {
      if (!document.hidden) await this.poll(controller.signal);
      if (!controller.signal.aborted) timer = setTimeout(tick, POLL_MS);
    };
    void tick();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }

  async poll(signal?: AbortSignal): Promise<void> {
    const options = signal ? { signal } : {};
    const poll = ++this.#polls;
    try {
      const all = await Promise.all([rules(options), silences(options), ruleFiles(options), notifiers(options)]);
      // An answer is dropped if a later poll has begun meanwhile.
      if (poll !== this.#polls) return;
      [this.groups, this.silences, this.files, this.notifiers] = all;
      this.error = null;
    } catch (error) {
      if (poll === this.#polls && !isAbort(error)) this.error = toApiError(error);
    }
  }

  /** Silences what the matchers match, over a span. */
  async silence(matchers: readonly Matcher[], { startMs, endMs }: Span, comment = 'Silenced on the page'): Promise<void> {
    await silence({
      matchers: [...matchers],
      startsAt: new Date(startMs).toISOString(),
      endsAt: new Date(endMs).toISOString(),
      createdBy: session.me?.name ?? 'page',
      comment,
    });
    await this.poll();
  }

  async endSilence(id: string): Promise<void> {
    await endSilence(id);
    await this.poll();
  }

  /** Keeps the choices of a new rule. */
  choose(draft: string, form: RuleForm): void {
    const next = new Map(this.forms);
    next.delete(draft);
    this.forms = new Map([...next.set(draft, form)].slice(-DRAFTS_MAX));
  }

  /** Keeps a text; null drops it. `base` is what the server had when it was begun. */
  write(file: string, text: string | null, base: string | null): void {
    const next = new Map(this.drafts);
    next.delete(file);
    if (text !== null) next.set(file, text);
    this.drafts = new Map([...next].slice(-DRAFTS_MAX));
    if (!this.#bases.has(file)) this.rebase(file, base);
    for (const known of [...this.#bases.keys()]) if (!this.drafts.has(known)) this.#bases.delete(known);
  }

  /** What the server had when the draft of a file was begun; `saved` if there is no draft. */
  baseOf(file: string, saved: string | null): string | null {
    return this.#bases.has(file) ? (this.#bases.get(file) ?? null) : saved;
  }

  /** From now on the draft is one of this text. */
  rebase(file: string, base: string | null): void {
    this.#bases.set(file, base);
  }
}

export const alertsState = new AlertsState();

/** The changes of alerts in a range, for one view. */
export class AlertHistory {
  /** Newest first. */
  changes = $state.raw<AlertChange[]>([]);
  error = $state.raw<ApiError | null>(null);
  #controller: AbortController | null = null;
  /** A server without alerts is not asked again. */
  #isAbsent = false;

  async load(span: Span, limit = CHANGES_MAX): Promise<void> {
    this.leave();
    // What alerts did is told to those who see all lines.
    if (this.#isAbsent || session.me?.restricted) return;
    const controller = new AbortController();
    this.#controller = controller;
    try {
      this.changes = await alertHistory(span, limit, null, { signal: controller.signal });
      this.error = null;
    } catch (error) {
      if (isAbort(error)) return;
      this.error = toApiError(error);
      this.#isAbsent = this.error.status === 404;
      this.changes = [];
    }
  }

  leave(): void {
    this.#controller?.abort();
  }
}
