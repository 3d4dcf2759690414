// What the answers that are shown lack: the lines of stores that are away, damaged lines, and what engines of a cluster do
// not tell. A view asks several questions at once: while one of them lacks lines, a whole answer to another one changes nothing.

import { onMissing, type Notice } from '../api/call';

/** Stores, and sentences about lines, that are told of at once. */
const PARTS_MAX = 20;

class Missing {
  stores = $state('');
  /** Sentences, or nothing. */
  lines = $state('');
  /** What does not answer in a cluster; then the others say the same in other words. */
  notices = $state.raw<Notice[]>([]);
  #isNew = true;

  /** What is shown is asked for anew: the next answer takes the place of all before it. */
  begin(): void {
    this.#isNew = true;
  }

  note(stores: string, lines: string, notices: Notice[]): void {
    const isFirst = this.#isNew;
    this.#isNew = false;
    this.stores = joined(isFirst ? '' : this.stores, stores, ', ');
    this.lines = joined(isFirst ? '' : this.lines, lines, '; ');
    const before = isFirst ? [] : this.notices;
    const more = notices.filter(({ what, text }) => !before.some((known) => known.what === what && known.text === text));
    this.notices = [...before, ...more].slice(0, PARTS_MAX);
  }
}

/** The parts of both lists, each once. */
function joined(before: string, more: string, between: string): string {
  const parts = [...before.split(between), ...more.split(between)].filter((part) => part !== '');
  return [...new Set(parts)].slice(0, PARTS_MAX).join(between);
}

export const missing = new Missing();

onMissing((stores, lines, notices) => missing.note(stores, lines, notices));
