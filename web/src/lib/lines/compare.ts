// Two lines beside each other, field by field.

import type { Row } from '../base/jsonl';
import { fieldsOf } from './rows';

export interface ComparedField {
  field: string;
  /** The values, in three parts: what both begin with, what differs, what both end with. Null if a line lacks the field. */
  left: [string, string, string] | null;
  right: [string, string, string] | null;
  isSame: boolean;
}

/** All fields of both lines, those that differ first. */
export function compareRows(left: Row, right: Row): ComparedField[] {
  const fields = [...new Set([...fieldsOf(left), ...fieldsOf(right)].map(([field]) => field))];
  const compared = fields.map<ComparedField>((field) => {
    const [a, b] = [left[field], right[field]];
    if (a === undefined || b === undefined) return { field, left: a === undefined ? null : ['', a, ''], right: b === undefined ? null : ['', b, ''], isSame: false };
    const [before, after] = a === b ? [a.length, 0] : common(a, b);
    return { field, left: cut(a, before, after), right: cut(b, before, after), isSame: a === b };
  });
  return compared.sort((a, b) => Number(a.isSame) - Number(b.isSame));
}

function cut(text: string, before: number, after: number): [string, string, string] {
  return [text.slice(0, before), text.slice(before, text.length - after), text.slice(text.length - after)];
}

/** How many characters two texts begin, and then end with, in whole words and numbers. */
function common(a: string, b: string): [number, number] {
  const most = Math.min(a.length, b.length);
  let before = 0;
  while (before < most && a[before] === b[before]) before++;
  let after = 0;
  while (after < most - before && a[a.length - 1 - after] === b[b.length - 1 - after]) after++;
  while (before > 0 && /\w/.test(a[before - 1] as string)) before--;
  while (after > 0 && /\w/.test(a[a.length - after] as string)) after--;
  return [before, after];
}
