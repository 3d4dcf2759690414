// Text that people write, with a little markup as in mail: headings, lists, code, emphasis. Pure. None of it is HTML: what
// shows or writes these blocks escapes their texts.

export interface Piece {
  kind: 'text' | 'strong' | 'code';
  text: string;
}

export type Block =
  | { kind: 'heading'; level: 1 | 2 | 3; pieces: Piece[] }
  | { kind: 'list'; isOrdered: boolean; items: Piece[][] }
  | { kind: 'code'; text: string }
  | { kind: 'paragraph'; lines: Piece[][] };

const HEADING = /^(#{1,3}) +(.*)$/;
const ITEM = /^ *(?:[-*]|(\d{1,3})[.)]) +(.*)$/;
const FENCE = /^```/;

/** The parts of a line: `code`, **emphasis**, and the rest. */
export function piecesOf(line: string): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  for (const found of line.matchAll(/`([^`]+)`|\*\*([^*]+)\*\*/g)) {
    if (found.index > at) pieces.push({ kind: 'text', text: line.slice(at, found.index) });
    pieces.push(found[1] === undefined ? { kind: 'strong', text: found[2] as string } : { kind: 'code', text: found[1] });
    at = found.index + found[0].length;
  }
  if (at < line.length) pieces.push({ kind: 'text', text: line.slice(at) });
  return pieces;
}

/** The blocks of a text. A block of code without an end goes to the end of the text. */
export function blocksOf(text: string): Block[] {
  const blocks: Block[] = [];
  const lines = text.replace(/\r\n?/g, '\n').split('\n');
  let code: string[] | null = null;
  for (const line of lines) {
    if (code !== null) {
      if (FENCE.test(line)) {
        blocks.push({ kind: 'code', text: code.join('\n') });
        code = null;
      } else code.push(line);
      continue;
    }
    if (FENCE.test(line)) {
      code = [];
      continue;
    }
    const last = blocks.at(-1);
    const heading = HEADING.exec(line);
    const item = ITEM.exec(line);
    if (line.trim() === '') blocks.push({ kind: 'paragraph', lines: [] });
    else if (heading) blocks.push({ kind: 'heading', level: (heading[1] as string).length as 1 | 2 | 3, pieces: piecesOf(heading[2] as string) });
    else if (item) {
      const isOrdered = item[1] !== undefined;
      const pieces = piecesOf(item[2] as string);
      if (last?.kind === 'list' && last.isOrdered === isOrdered) last.items.push(pieces);
      else blocks.push({ kind: 'list', isOrdered, items: [pieces] });
    } else if (last?.kind === 'paragraph') last.lines.push(piecesOf(line));
    else blocks.push({ kind: 'paragraph', lines: [piecesOf(line)] });
  }
  if (code !== null) blocks.push({ kind: 'code', text: code.join('\n') });
  return blocks.filter((block) => block.kind !== 'paragraph' || block.lines.length > 0);
}
