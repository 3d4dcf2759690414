// JSON in a raw line, to be shown as a tree. Numbers keep the text they were written with: large ones would change otherwise.

export class NumberText {
  constructor(readonly text: string) {}
}

export type Json = null | boolean | string | NumberText | Json[] | { [name: string]: Json };

/** Longer lines are shown as text alone. */
const CHARS_MAX = 1024 * 1024;
/** Places where JSON could begin that are tried, such as behind the header of syslog. */
const TRIES_MAX = 4;

/** The object or array that a line is, or ends with; null if there is none. */
export function jsonOf(line: string): Json | null {
  if (line.length > CHARS_MAX) return null;
  let tries = 0;
  for (let at = line.search(/[{[]/); at >= 0 && tries < TRIES_MAX; tries++) {
    const found = parse(line.slice(at));
    if (found !== null && typeof found === 'object' && Object.keys(found).length > 0) return found;
    const next = line.slice(at + 1).search(/[{[]/);
    at = next < 0 ? -1 : at + 1 + next;
  }
  return null;
}

/** Marks numbers while they pass through the parser as strings. */
const NUMBER_MARK = '\u0000number ';
const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

function parse(text: string): Json | null {
  const marked = text.replace(STRING_OR_NUMBER, (token) => (token.startsWith('"') ? token : JSON.stringify(NUMBER_MARK + token)));
  const unmark = (_name: string, value: unknown): unknown =>
    typeof value === 'string' && value.startsWith(NUMBER_MARK) ? new NumberText(value.slice(NUMBER_MARK.length)) : value;
  try {
    return JSON.parse(marked, unmark) as Json;
  } catch {
    return null;
  }
}

/** The members of an object or array, with their names; null for other values. */
export function membersOf(value: Json): [string, Json][] | null {
  if (value === null || typeof value !== 'object' || value instanceof NumberText) return null;
  return Object.entries(value);
}

/** `{3}`, `[2]`, or the value as JSON. */
export function shortOf(value: Json): string {
  if (value instanceof NumberText) return value.text;
  const members = membersOf(value);
  if (members === null) return JSON.stringify(value);
  return Array.isArray(value) ? `[${members.length}]` : `{${members.length}}`;
}
