// The colours of LogsQL, from the roles that lib/logsqlParts gives.

import { RangeSetBuilder } from '@codemirror/state';
import { Decoration, EditorView, ViewPlugin, type DecorationSet, type ViewUpdate } from '@codemirror/view';
import { readParts, type Role } from '../lib/query/logsqlParts';

/** A longer query is shown without colours: each change reads all of it. */
export const COLORED_CHARS_MAX = 20_000;

const COLORED: readonly Role[] = ['pipe', 'function', 'filter', 'field', 'keyword', 'text', 'number', 'operator', 'comment'];
const MARKS = new Map(COLORED.map((role) => [role, Decoration.mark({ class: `q-${role}` })]));

function marksOf(text: string): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  if (text.length <= COLORED_CHARS_MAX) {
    for (const { role, from, to } of readParts(text).parts) {
      const mark = MARKS.get(role);
      if (mark) builder.add(from, to, mark);
    }
  }
  return builder.finish();
}

const colors = EditorView.baseTheme({
  '.q-pipe': { color: 'var(--code-pipe)', fontWeight: '600' },
  '.q-function, .q-filter': { color: 'var(--code-function)' },
  '.q-field': { color: 'var(--code-field)' },
  '.q-keyword': { color: 'var(--code-pipe)' },
  '.q-text': { color: 'var(--code-text)' },
  '.q-number': { color: 'var(--code-number)' },
  '.q-operator': { color: 'var(--muted)' },
  '.q-comment': { color: 'var(--muted)', fontStyle: 'italic' },
});

export const highlighting = [
  ViewPlugin.fromClass(
    class {
      decorations: DecorationSet;

      constructor(view: EditorView) {
        this.decorations = marksOf(view.state.doc.toString());
      }

      update(update: ViewUpdate): void {
        if (update.docChanged) this.decorations = marksOf(update.state.doc.toString());
      }
    },
    { decorations: (plugin) => plugin.decorations },
  ),
  colors,
];
