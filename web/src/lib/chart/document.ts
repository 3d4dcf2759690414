// A dashboard or a notebook as one file that needs no server: texts, pictures and rows, as they were
// when it was saved. For a post-mortem. Pure.
//
// Texts of logs are data: all of them are escaped, and the file forbids scripts and addresses.

import type { Row } from '../base/jsonl';
import { blocksOf, type Block, type Piece } from '../base/prose';

export interface DocumentPart {
  title: string;
  /** What somebody wrote; empty for a chart. */
  text: string;
  query: string;
  /** A picture as a `data:` address; null where there is none. */
  picture: string | null;
  rows: readonly Row[];
  /** What is said below the title, such as a range of its own. */
  note?: string;
  /** Rows that are not in `rows`. */
  left?: number;
}

/** Rows of a part that has no picture; further ones are counted. */
const ROWS_MAX = 100;
const CELL_CHARS_MAX = 2_000;

const ESCAPES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (char) => ESCAPES[char] as string);
}

function inline(pieces: readonly Piece[]): string {
  const tags = { text: '', strong: 'strong', code: 'code' } as const;
  return pieces.map(({ kind, text }) => (tags[kind] === '' ? escaped(text) : `<${tags[kind]}>${escaped(text)}</${tags[kind]}>`)).join('');
}

function block(one: Block): string {
  switch (one.kind) {
    case 'heading':
      return `<h${one.level + 1}>${inline(one.pieces)}</h${one.level + 1}>`;
    case 'list':
      return `<${one.isOrdered ? 'ol' : 'ul'}>${one.items.map((item) => `<li>${inline(item)}</li>`).join('')}</${one.isOrdered ? 'ol' : 'ul'}>`;
    case 'code':
      return `<pre>${escaped(one.text)}</pre>`;
    case 'paragraph':
      return `<p>${one.lines.map(inline).join('<br>')}</p>`;
  }
}

function table(rows: readonly Row[], left: number): string {
  if (rows.length === 0) return '<p>No rows.</p>';
  const shown = rows.slice(0, ROWS_MAX);
  const names = [...new Set(shown.flatMap((row) => Object.keys(row)))];
  const line = (tag: string, cells: readonly string[]): string => `<tr>${cells.map((cell) => `<${tag}>${escaped(cell.slice(0, CELL_CHARS_MAX))}</${tag}>`).join('')}</tr>`;
  const body = shown.map((row) => line('td', names.map((name) => row[name] ?? ''))).join('\n');
  const rest = Math.max(0, rows.length - ROWS_MAX) + left;
  const more = rest > 0 ? `<p>and ${rest} more rows</p>` : '';
  return `<table>${line('th', names)}\n${body}</table>${more}`;
}

function section({ title, text, query, picture, rows, note = '', left = 0 }: DocumentPart): string {
  const head = `${title === '' ? '' : `<h2>${escaped(title)}</h2>`}${note === '' ? '' : `<p class="note">${escaped(note)}</p>`}`;
  if (query === '') return `${head}${blocksOf(text).map(block).join('\n')}`;
  const shown = picture !== null && /^data:image\/png;base64,[A-Za-z0-9+/=]+$/.test(picture) ? `<img alt="${escaped(title || query)}" src="${picture}">` : table(rows, left);
  return `${head}${shown}<pre>${escaped(query)}</pre>`;
}

/** The file; `range` says in words which time it is about. */
export function documentOf(title: string, range: string, parts: readonly DocumentPart[]): string {
  const policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";
  const style = 'body{max-width:70em;margin:2em auto;padding:0 1em;font:15px/1.5 system-ui,sans-serif}img{max-width:100%}table{border-collapse:collapse;font-size:12px}td,th{border:1px solid #ccc;padding:2px 6px;text-align:left}pre{color:#555;font-size:12px;white-space:pre-wrap}.note{color:#555;font-size:12px}code{background:#eee}';
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${escaped(title)}</title>
<style>${style}</style>
</head>
<body>
<h1>${escaped(title)}</h1>
<p>${escaped(range)}</p>
${parts.map(section).join('\n')}
</body>
</html>
`;
}
