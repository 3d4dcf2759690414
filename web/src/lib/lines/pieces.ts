// A message as pieces to show: plain text, colours of terminals, links, values of fields, and what the query searched for.
// Every piece is text; nothing of a log becomes markup.

import { ansiText } from '../base/ansi';
import { marksIn, type SearchedTerm } from '../query/terms';
import { unseenIn } from './readable';

export interface Piece {
  text: string;
  /** Names of classes for colours. */
  classes: string;
  marked: boolean;
  /** The address, for a link. */
  href: string | null;
  /** The field whose value this is. */
  field: string | null;
  /** What a character is that cannot be seen; the text is its code then. */
  unseen: string | null;
}

/** A value of a field inside the message. */
export interface Placed {
  field: string;
  from: number;
  to: number;
}

const LINK = /\bhttps?:\/\/[^\s"'<>`\\^{}|\x00-\x1f\x7f]+/g;
/** Links per text; further ones are shown as text. */
const LINKS_MAX = 50;

interface Part {
  from: number;
  to: number;
  change: (piece: Piece) => void;
}

/** `charsFrom` characters at the start are left out; `placed` are values of fields, by their place in the text without colours. */
export function piecesOf(message: string, field: string, terms: readonly SearchedTerm[], charsFrom = 0, placed: readonly Placed[] = []): Piece[] {
  const { text, runs } = ansiText(message);
  const parts: Part[] = [
    ...runs.map(({ from, to, classes }) => ({ from, to, change: (piece: Piece) => void (piece.classes = classes) })),
    ...linksIn(text).map(({ from, to, href }) => ({ from, to, change: (piece: Piece) => void (piece.href = href) })),
    ...placed.map(({ from, to, field }) => ({ from, to, change: (piece: Piece) => void (piece.field = field) })),
    ...marksIn(text, field, terms).map(([from, to]) => ({ from, to, change: (piece: Piece) => void (piece.marked = true) })),
    ...unseenIn(text).map(({ from, to, code, means }) => ({
      from,
      to,
      change: (piece: Piece) => {
        piece.unseen = `${code}: ${means}`;
        piece.text = code;
      },
    })),
  ];
  if (parts.length === 0) return [{ text: text.slice(charsFrom), classes: '', marked: false, href: null, field: null, unseen: null }];
  const cuts = [...new Set([charsFrom, text.length, ...parts.flatMap(({ from, to }) => [from, to])])].filter((at) => at >= charsFrom).sort((a, b) => a - b);
  const pieces: Piece[] = [];
  for (let at = 0; at + 1 < cuts.length; at++) {
    const [from, to] = [cuts[at] as number, cuts[at + 1] as number];
    const piece: Piece = { text: text.slice(from, to), classes: '', marked: false, href: null, field: null, unseen: null };
    for (const part of parts) if (part.from <= from && to <= part.to) part.change(piece);
    pieces.push(piece);
  }
  return pieces;
}

interface Link {
  from: number;
  to: number;
  href: string;
}

/** Addresses of http and https, without the punctuation of the sentence around them. */
export function linksIn(text: string): Link[] {
  const links: Link[] = [];
  if (!text.includes('://')) return links;
  for (const match of text.matchAll(LINK)) {
    let address = match[0].replace(/[.,;:!?]+$/, '');
    for (const [open, close] of ['()', '[]']) {
      while (address.endsWith(close as string) && count(address, close as string) > count(address, open as string)) address = address.slice(0, -1).replace(/[.,;:!?]+$/, '');
    }
    const href = safeHref(address);
    if (href !== null) links.push({ from: match.index, to: match.index + address.length, href });
    if (links.length >= LINKS_MAX) break;
  }
  return links;
}

function safeHref(address: string): string | null {
  try {
    const url = new URL(address);
    return (url.protocol === 'http:' || url.protocol === 'https:') && url.hostname !== '' ? url.href : null;
  } catch {
    return null;
  }
}

function count(text: string, char: string): number {
  return text.split(char).length - 1;
}
