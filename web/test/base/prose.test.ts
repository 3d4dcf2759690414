import { expect, test } from 'vitest';
import { blocksOf, piecesOf } from '../../src/lib/base/prose';

test('a line has code, emphasis and the rest', () => {
  expect(piecesOf('the disk `sdb1` was **full** at *last*')).toEqual([
    { kind: 'text', text: 'the disk ' },
    { kind: 'code', text: 'sdb1' },
    { kind: 'text', text: ' was ' },
    { kind: 'strong', text: 'full' },
    { kind: 'text', text: ' at *last*' },
  ]);
  expect(piecesOf('')).toEqual([]);
  expect(piecesOf('a ` b ** c')).toEqual([{ kind: 'text', text: 'a ` b ** c' }]);
});

test('a text has headings, lists, code and paragraphs', () => {
  const kinds = (text: string): string => blocksOf(text).map((block) => (block.kind === 'list' ? `${block.isOrdered ? 'ol' : 'ul'}${block.items.length}` : block.kind === 'paragraph' ? `p${block.lines.length}` : block.kind === 'heading' ? `h${block.level}` : `code:${block.text}`)).join(' ');
  for (const [text, expected] of [
    ['', ''],
    ['a', 'p1'],
    ['a\r\nb\n\n\nc', 'p2 p1'],
    ['# a\n### b\n#c\n#### d', 'h1 h3 p2'],
    ['- a\n* b\n1. c\n2) d\n-e', 'ul2 ol2 p1'],
    ['```\n# a\n\n- b\n```\nc', 'code:# a\n\n- b p1'],
    ['a\n```\nb', 'p1 code:b'],
  ] as const) expect(kinds(text), text).toBe(expected);
});
