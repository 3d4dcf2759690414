// Differences and stories in words. Of two windows of time they say what came, rose and is missing; of two groups of lines,
// what is only in one of them.

import { formatCount, formatNumber, formatOf, formatPercent } from '../base/format';
import { clip } from './rows';
import type { Difference } from './differences';
import { commonOfStory, whoOf, type Story } from './stories';

/** Characters of a message or value in a sentence. */
const QUOTED_CHARS = 120;

/** What two sides are compared: two windows of time, or two groups of lines with the lines of each, if that is known. */
export type Sides = { kind: 'times' } | { kind: 'groups'; selected: number | null; others: number | null };

/** What happened to the lines of a difference, in a word or two. */
export function wordOf(one: Difference, sides: Sides): string {
  if (one.shift) return one.rises ? 'Higher' : 'Lower';
  if (one.kind === 'first') return 'First';
  const isGroups = sides.kind === 'groups';
  if (one.turn === 'new') return isGroups ? 'Only in these' : 'New';
  if (one.turn === 'gone') return isGroups ? 'Missing in these' : 'Gone';
  return one.rises ? 'More' : 'Fewer';
}

/** How many lines there are, and how many were expected. */
export function amountOf(one: Difference, sides: Sides): string {
  const expected = formatCount(Math.round(one.expected));
  if (one.shift) return `${formatOf(one.selected, 'line')} ${one.rises ? 'above' : 'below'} ${formatNumber(one.shift.from)}, ${expected} expected`;
  if (one.kind === 'first') return formatOf(one.selected, 'line');
  if (sides.kind === 'groups' && sides.selected !== null && sides.others !== null) {
    const share = (lines: number, all: number): string => `${formatCount(lines)} of ${formatCount(all)}`;
    return `in ${share(one.selected, sides.selected)} of these lines (${formatPercent(one.selected, sides.selected)}), in ${share(one.others, sides.others)} of the others (${formatPercent(one.others, sides.others)})`;
  }
  if (one.turn === 'gone') return `${formatOf(Math.round(one.expected), 'line')} expected, 0 seen`;
  return `${formatOf(one.selected, 'line')}, ${expected} expected`;
}

const quoted = (text: string): string => `“${clip(text, QUOTED_CHARS)}”`;

/** A story in one sentence; `common` are fields that all of its lines are known to have besides. */
export function sentenceOf(story: Story, sides: Sides, common: readonly [field: string, value: string][] = []): string {
  const { head } = story;
  const who = whoOf([...common, ...commonOfStory(story)].filter(([field]) => head.kind !== 'value' || field !== head.field));
  const isPattern = head.kind === 'pattern' || head.kind === 'first';
  const of = who === '' ? '' : `${who}: `;
  if (head.shift) return `${of}${head.field} ${head.rises ? 'rose' : 'fell'} from ${formatNumber(head.shift.from)} to ${formatNumber(head.shift.to)} (p${formatNumber(head.shift.percentile)})`;
  const what = isPattern ? quoted(head.value) : `${head.field} ${quoted(head.value)}`;
  if (sides.kind === 'groups') {
    if (head.turn === 'new') return `Only these lines have ${isPattern ? what : `${head.field} = ${quoted(head.value)}`}`;
    if (head.turn === 'gone') return `None of these lines has ${isPattern ? what : `${head.field} = ${quoted(head.value)}`}`;
    return `These lines have ${isPattern ? what : `${head.field} = ${quoted(head.value)}`} ${head.rises ? 'more' : 'less'} often than the others`;
  }
  const expected = formatCount(Math.round(head.expected));
  if (head.turn === 'gone') return isPattern ? `${of}${what} is missing: ${expected} expected, 0 seen` : `${what} is silent: ${formatOf(Math.round(head.expected), 'line')} expected, 0 seen`;
  if (isPattern) return `${of}${what} came ${head.turn === 'new' ? `${formatOf(head.selected, 'time')}, never before` : `${formatOf(head.selected, 'time')}, ${expected} expected`}`;
  return `${of}${what} has ${formatOf(head.selected, 'line')}, ${expected} expected`;
}
