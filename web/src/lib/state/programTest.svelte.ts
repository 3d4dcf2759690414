// The test of a program that is being written: runs shortly after the last change, one run at a time.

import { ApiError, isAbort } from '../api/call';
import { toApiError } from './lines.svelte';
import { marksOf, type Mark } from '../programs/programText';
import { testProgram, type Language, type TestReport } from '../api/programs';

/** Waits until nobody has typed for so long. */
export const TEST_AFTER_MS = 600;

export class ProgramTest {
  report = $state.raw<TestReport | null>(null);
  /** Why there is no report: the text is no program, or the server does not answer. */
  error = $state.raw<ApiError | null>(null);
  running = $state(false);
  #timer: ReturnType<typeof setTimeout> | undefined;
  #controller: AbortController | null = null;

  /** What is wrong in which lines, of the last run. */
  marks: Mark[] = $derived.by(() => {
    if (this.error?.status === 400 && this.error.line !== null) return [{ programLine: this.error.line, inputLine: null, message: this.error.message }];
    return this.report ? marksOf(this.report) : [];
  });

  later(language: Language, text: string, lines: readonly string[]): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.now(language, text, lines), TEST_AFTER_MS);
  }

  async now(language: Language, text: string, lines: readonly string[]): Promise<void> {
    this.leave();
    const controller = new AbortController();
    this.#controller = controller;
    this.running = true;
    try {
      this.report = await testProgram(language, text, lines, { signal: controller.signal });
      this.error = null;
    } catch (error) {
      if (isAbort(error)) return;
      this.report = null;
      this.error = toApiError(error);
    } finally {
      if (this.#controller === controller) this.running = false;
    }
  }

  /** Shows why saving was refused, at the line, as a test does. */
  refuse(error: ApiError): void {
    this.leave();
    this.report = null;
    this.error = error;
  }

  leave(): void {
    clearTimeout(this.#timer);
    this.#controller?.abort();
    this.#controller = null;
    this.running = false;
  }
}
