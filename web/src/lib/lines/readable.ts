// Values of fields and messages as a row of the list shows them: numbers in three digits with their
// unit, characters that cannot be seen by their code, a stack trace by its first line and the first
// frame of one's own code.
//
// Nothing here changes what is stored, filtered or copied: the detail of a line and its raw text
// stay whole.

import { formatUnit, guessUnit } from '../chart/units';

const NUMBER = /^-?\d{1,15}(?:\.\d+)?(?:e[+-]?\d{1,3})?$/i;
/** A number without a unit may be an identifier, so only digits behind its point are rounded. */
const LONG_FRACTION = /\.\d{4,}|e/i;

/**
 * `905.8137` of `duration_ms` → `906 ms`, `153600` of `bytes` → `150 KiB`; texts, and numbers that
 * may be identifiers, stay.
 */
export function shownValue(field: string, value: string): string {
  if (value.includes('\n')) return foldTrace(value) ?? value;
  if (!NUMBER.test(value)) return value;
  const number = Number(value);
  const unit = guessUnit(field, null, null);
  if (unit !== 'number') return formatUnit(number, unit);
  return LONG_FRACTION.test(value) ? String(Math.abs(number) < 1000 ? Number(number.toPrecision(3)) : Math.round(number)) : value;
}

/** A character that cannot be seen, or that changes the order of those around it. */
export interface Unseen {
  from: number;
  to: number;
  /** Its code, such as `U+202E`. */
  code: string;
  /** What it does, in words. */
  means: string;
}

/**
 * Marks per text; a text with more of them is a binary one, and its further ones are not marked.
 */
const UNSEEN_MAX = 200;
const UNSEEN = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0]|[\u{e0000}-\u{e007f}]/gu;
const DIRECTION = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
const JOINER = /[\u200c\u200d]/;
/** Joiners belong between letters of other scripts than ours, and between the parts of an emoji. */
const JOINED = /[\p{Extended_Pictographic}\ufe0f]|[^\x00-\u024f]/u;

/** Where such characters stand in a text, in order. */
export function unseenIn(text: string): Unseen[] {
  const found: Unseen[] = [];
  for (const { 0: char, index } of text.matchAll(UNSEEN)) {
    if (JOINER.test(char) && index > 0 && JOINED.test([...text.slice(Math.max(0, index - 2), index)].pop() ?? '')) continue;
    const code = `U+${(char.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')}`;
    const means = DIRECTION.test(char) ? 'changes the direction of the text' : char < ' ' || char === '\x7f' ? 'a control character' : 'cannot be seen';
    found.push({ from: index, to: index + char.length, code, means });
    if (found.length >= UNSEEN_MAX) break;
  }
  return found;
}

/** A text with the codes of such characters in their place: `admin‹U+200B›`. */
export function visibleText(text: string): string {
  let shown = '';
  let done = 0;
  for (const { from, to, code } of unseenIn(text)) {
    shown += `${text.slice(done, from)}‹${code}›`;
    done = to;
  }
  return done === 0 ? text : shown + text.slice(done);
}

/**
 * Lines of a stack trace that name a place in code: Java, .NET and JavaScript, Python, Go, Ruby,
 * PHP, Rust.
 */
const FRAMES: readonly RegExp[] = [
  /^\s+at (?:async )?\S.*$/,
  /^\s*File "[^"]+", line \d+(?:, in .*)?$/,
  /^\s+\S+\.(?:go|rs|c|cc|cpp|swift):\d+(?: \+0x[\da-f]+)?$/,
  /^\s*(?:from )?\S+\.rb:\d+:in .*$/,
  /^#\d+ \S.*$/,
];
/** Code of libraries and runtimes. */
const FOREIGN =
  /\b(?:java|javax|jakarta|jdk|sun|com\.sun|kotlin|kotlinx|scala|groovy|clojure|akka|reactor|io\.netty|io\.vertx|org\.(?:springframework|apache|hibernate|eclipse|jboss|postgresql|junit|slf4j)|com\.(?:zaxxer|fasterxml|mysql|google\.common)|System|Microsoft)\.|node_modules|node:|\(internal\/|<anonymous>|(?:site|dist)-packages|\/lib\/python\d|<frozen |\/go\/src\/|\/pkg\/mod\/|\/gems\/|\/rustc\/|\/vendor\//;
/** Frames from which on a text is a trace; a single one may be a sentence. */
const FRAMES_MIN = 2;
const TRACE_LINES_MAX = 2_000;

/**
 * A stack trace as one line: what stands before its frames, the first frame of one's own code (the
 * last one of Python, which writes the innermost last), and how many frames there are besides. Null
 * if the text is no trace.
 */
export function foldTrace(text: string): string | null {
  if (!text.includes('\n')) return null;
  const lines = text.split('\n', TRACE_LINES_MAX).map((line) => line.replace(/\r$/, ''));
  const isFrame = (line: string): boolean => FRAMES.some((form) => form.test(line));
  const frames = lines.filter(isFrame);
  if (frames.length < FRAMES_MIN) return null;
  const isPython = frames.some((line) => /^\s*File "/.test(line));
  const inner = isPython ? [...frames].reverse() : frames;
  const own = inner.find((line) => !FOREIGN.test(line)) ?? (inner[0] as string);
  // Python says what went wrong behind its frames, the others before them.
  const told = lines.filter((line) => line.trim() !== '' && !isFrame(line));
  const ends = isPython ? told.filter((line) => /^\S/.test(line) && !/^Traceback /.test(line)) : [];
  const head = isPython ? [...new Set([ends[0], ends.at(-1)])].filter((line) => line !== undefined).join(' ') : (told[0] ?? '');
  const rest = frames.length - 1;
  return `${head.trim()} ⤷ ${own.trim()} (+${rest} ${rest === 1 ? 'frame' : 'frames'})`.trim();
}
