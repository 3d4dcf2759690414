// Stories: differences that are the same lines, told together. Which lines those are, the server counts: it marks each line
// with the differences that it belongs to, and counts the lines by their marks.

import type { Row } from '../base/jsonl';
import { filterOfDifference, scopeOfDifference, type Comparing, type Comparison, type Difference } from './differences';
import { addFilter } from '../query/logsql';
import type { Span } from '../base/time';

/** Combinations of marks that are requested; the rest are the rarest ones. */
export const MARKS_MAX = 5_000;
/** Two differences are the same lines if the smaller one has at least this share of its lines in the larger one, … */
const INSIDE_MIN = 0.7;
/** … which is this many times the share that chance would put there, … */
const LIFT_MIN = 2;
/** … and which make up at least this share of what the larger one changed by. */
const CHANGE_MIN = 0.3;
/** Lines are explained by a value that this share of them have. */
const CAUSE_MIN = 0.5;
/** Stories that are explained: each takes two more queries. */
export const EXPLAINED_MAX = 3;
/** All lines have a value, but for a few that came meanwhile. */
const ALL_MIN = 0.95;

const SIDE = '__selected';
const mark = (place: number): string => `__in${place}`;

/** The lines of both sides, by the differences that they belong to. */
export interface Overlap {
  rows: { isSelected: boolean; in: ReadonlySet<number>; lines: number }[];
}

/** Whether the lines of a difference are those of the other side: what is gone, or fewer. */
function isOfOthers(one: Difference): boolean {
  return one.shift === null && !one.rises;
}

/** Counts the lines by the differences that they belong to. The other side is read only if a difference needs it. */
export function overlapQuery(comparison: Comparison, found: readonly Difference[], span: Span): Comparing {
  const { before, where, selected } = comparison;
  const needsOthers = selected === null || found.some(isOfOthers);
  const marks = found.map((one, place) => `format if (${filterOfDifference(one)}) "1" as ${mark(place)}`);
  const side = needsOthers ? `format if (${where}) "1" as ${SIDE}` : `format "1" as ${SIDE}`;
  const by = [SIDE, ...found.map((_, place) => mark(place))].join(', ');
  return {
    query: [before, side, ...marks, `stats by (${by}) count() n`, `sort by (n desc) limit ${MARKS_MAX}`].join(' | '),
    span: needsOthers ? span : (selected as Span),
  };
}

export function overlapOf(rows: readonly Row[], count: number): Overlap {
  return {
    rows: rows.map((row) => ({
      isSelected: row[SIDE] === '1',
      in: new Set(Array.from({ length: count }, (_, place) => place).filter((place) => row[mark(place)] === '1')),
      lines: Number(row['n'] ?? 0),
    })),
  };
}

/** The lines of one side that belong to all of these differences. */
export function linesIn(overlap: Overlap, isSelected: boolean, ...places: number[]): number {
  const fits = overlap.rows.filter((row) => row.isSelected === isSelected && places.every((place) => row.in.has(place)));
  return fits.reduce((sum, row) => sum + row.lines, 0);
}

/** Whether two differences are the same lines. */
function areSame(overlap: Overlap, found: readonly Difference[], a: number, b: number): boolean {
  const [one, other] = [found[a] as Difference, found[b] as Difference];
  if (isOfOthers(one) !== isOfOthers(other)) return false;
  const side = !isOfOthers(one);
  const [sizeA, sizeB] = [linesIn(overlap, side, a), linesIn(overlap, side, b)];
  const [small, large] = [Math.min(sizeA, sizeB), Math.max(sizeA, sizeB)];
  if (small === 0) return false;
  const both = linesIn(overlap, side, a, b);
  if (both < INSIDE_MIN * small) return false;
  // Nearly the same lines; else the larger one must not be nearly all lines there are.
  if (both < INSIDE_MIN * large && both / small < (LIFT_MIN * large) / linesIn(overlap, side)) return false;
  const wide = sizeA >= sizeB ? one : other;
  const changed = Math.abs(wide.selected - wide.expected) / Math.max(1, wide.selected, wide.expected);
  return wide.turn !== null || both >= CHANGE_MIN * changed * large;
}

/** Differences that are the same lines, the greatest one first. */
export interface Story {
  head: Difference;
  /** All of them, with the head. */
  parts: Difference[];
  /** When its first new line came. */
  firstMs: number | null;
  /** When its last line was seen, if it is gone. */
  lastMs: number | null;
}

/**
 * The stories of differences, in the order of their greatest difference. Each difference belongs to the first story whose
 * greatest one has the same lines: by way of a third difference, unlike things would come together.
 */
export function storiesOf(found: readonly Difference[], overlap: Overlap | null): Story[] {
  const heads: number[] = [];
  const parts = new Map<number, Difference[]>();
  found.forEach((one, place) => {
    const head = overlap === null ? undefined : heads.find((at) => areSame(overlap, found, at, place));
    if (head === undefined) {
      heads.push(place);
      parts.set(place, [one]);
    } else parts.get(head)?.push(one);
  });
  return heads.map((place) => {
    const all = parts.get(place) as Difference[];
    const times = (pick: (one: Difference) => number | null): number[] => all.map(pick).filter((ms): ms is number => ms !== null);
    const [began, ended] = [times((one) => (one.turn === 'new' ? one.firstMs : null)), times((one) => (one.turn === 'gone' ? one.lastMs : null))];
    return {
      head: found[place] as Difference,
      parts: all,
      firstMs: began.length > 0 ? Math.min(...began) : null,
      lastMs: ended.length > 0 ? Math.max(...ended) : null,
    };
  });
}

/** Names of fields that say who and where, in the order in which they are told. */
const WHO = [/(^|[._])(app_?name|app|service|service[._]name|container(_name)?|job|unit|program)$/i, /(^|[._])(host_?name|host|node|node_name|instance)$/i, /(^|[._])(pod|pod_name|namespace|region|zone|cluster|version|tenant)$/i];

function rankOf(field: string): number {
  const at = WHO.findIndex((names) => names.test(field));
  return at < 0 ? WHO.length : at;
}

/** What all lines of a story have: who wrote them and where first, then other values; each field once. */
export function commonOfStory(story: Story): [field: string, value: string][] {
  const all = story.parts.flatMap((one): [string, string][] => [...one.with, ...(one.kind === 'value' && !isOfOthers(one) ? [[one.field, one.value] as [string, string]] : [])]);
  const known = new Map<string, string | null>();
  // Two values of a field are not what all lines have.
  for (const [field, value] of all) known.set(field, known.has(field) && known.get(field) !== value ? null : value);
  const kept = [...known].filter((entry): entry is [string, string] => entry[1] !== null);
  return kept.sort((a, b) => rankOf(a[0]) - rankOf(b[0]));
}

/** Who the lines of a story are of: the best two of the fields that all of them have; empty if nothing says it. */
export function whoOf(common: readonly [field: string, value: string][]): string {
  const named = common.filter(([field]) => rankOf(field) < WHO.length).sort((a, b) => rankOf(a[0]) - rankOf(b[0]));
  return named.slice(0, 2).map(([, value]) => value).join(' on ');
}

/** What the lines of a difference are of, to be listed under a heading. */
export function sortOf(one: Difference): 'Patterns' | 'Values' | 'Numbers' {
  return one.kind === 'number' ? 'Numbers' : one.kind === 'value' ? 'Values' : 'Patterns';
}

// ---- whose lines these are, and what they have that others have not ----

/** A value that most lines of a story have, and few others. */
export interface Cause {
  field: string;
  value: string;
  /** Its lines among those of the story, and how many those are. */
  lines: number;
  of: number;
  /** How many would be expected among them. */
  expected: number;
}

/** What is known of a story beyond its differences. */
export interface Explained {
  /** Fields that all of its lines have. */
  common: [field: string, value: string][];
  causes: Cause[];
}

/** The stories whose differences do not say whose lines they are: numbers that moved, and single values. */
export function toExplain(stories: readonly Story[]): Story[] {
  const isUnclear = ({ head, parts }: Story): boolean => !isOfOthers(head) && head.kind !== 'pattern' && parts.every((one) => one.kind === head.kind && one.with.length === 0);
  return stories.filter(isUnclear).slice(0, EXPLAINED_MAX);
}

/** Compares the lines of a difference with the other lines of the same side that have the field. */
export function causesQuery(comparison: Comparison, one: Difference, span: Span): Comparing {
  const { query, span: within } = scopeOfDifference(comparison, one, span);
  return { query: `${query} | differences 5 where (${filterOfDifference(one)})`, span: within };
}

/** What most of the lines have; not the field that they are about. */
export function causesOf(found: readonly Difference[], about: Difference): Cause[] {
  const of = about.selected;
  const values = found.flatMap((one): Cause[] => {
    if (!one.rises || one.shift !== null || one.kind === 'first') return [];
    const own = one.kind === 'value' ? [[one.field, one.value] as [string, string], ...one.with] : one.with;
    return own.map(([field, value]) => ({ field, value, lines: one.selected, of, expected: one.expected }));
  });
  const likely = values.filter((one) => one.field !== about.field && one.lines >= CAUSE_MIN * of && one.lines >= LIFT_MIN * one.expected);
  return likely.filter((one, at) => likely.findIndex((other) => other.field === one.field) === at).slice(0, 3);
}

/** The lines of a difference on its side. */
export function ownLines(comparison: Comparison, one: Difference, span: Span): Comparing {
  const { query, span: within } = scopeOfDifference(comparison, one, span);
  return { query: addFilter(query, filterOfDifference(one)), span: within };
}

/** Who wrote lines, by the values that they have in common. */
export function writersOf(facets: readonly { field_name: string; values: { field_value: string; hits: number }[] }[], lines: number): [field: string, value: string][] {
  return facets.flatMap(({ field_name, values }): [string, string][] => {
    const [only] = values;
    return only && rankOf(field_name) < WHO.length && values.length === 1 && only.hits >= ALL_MIN * lines ? [[field_name, only.field_value]] : [];
  });
}
