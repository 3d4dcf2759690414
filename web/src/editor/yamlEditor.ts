// An editor for a text in YAML, such as a file of rules. Tab leaves it; Ctrl with ] and [ indents.

import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { yaml } from '@codemirror/lang-yaml';
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { setDiagnostics, setDiagnosticsEffect } from '@codemirror/lint';
import { Compartment, EditorState, Prec } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { look, shadowOf, typeOver } from './theme';

export interface YamlEditorOptions {
  host: HTMLElement;
  text: string;
  label: string;
  testid: string;
  oninput: (text: string) => void;
  /** Ctrl with Enter. */
  onrun: () => void;
}

export interface YamlEditor {
  setText: (text: string) => void;
  /** Marks a line, from 1, until the text is changed. */
  setMistake: (mistake: { line: number; message: string } | null) => void;
  setReadOnly: (isReadOnly: boolean) => void;
  destroy: () => void;
}

const colors = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], color: 'var(--code-field)' },
  { tag: [tags.string, tags.special(tags.string), tags.content], color: 'var(--code-text)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--code-number)' },
  { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: 'var(--muted)' },
  { tag: [tags.keyword, tags.labelName, tags.meta], color: 'var(--code-pipe)' },
]);

const size = EditorView.theme({
  '.cm-scroller': { minHeight: '280px', maxHeight: '65vh', overflow: 'auto' },
  '.cm-gutters': { backgroundColor: 'var(--sunken)', color: 'var(--muted)', borderRight: '1px solid var(--border)' },
  '.cm-activeLine': { backgroundColor: 'transparent' },
  '&.cm-focused .cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--accent) 7%, transparent)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { background: 'color-mix(in srgb, var(--accent) 30%, transparent)' },
});

export function openYamlEditor(options: YamlEditorOptions): YamlEditor {
  const root = shadowOf(options.host);
  const readOnly = new Compartment();
  let isExternal = false;
  const run = (): boolean => {
    options.onrun();
    return true;
  };
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        history(),
        lineNumbers(),
        drawSelection(),
        highlightActiveLine(),
        indentOnInput(),
        bracketMatching(),
        yaml(),
        syntaxHighlighting(colors),
        Prec.high(keymap.of([{ key: 'Mod-Enter', run }])),
        keymap.of([...historyKeymap, ...defaultKeymap]),
        readOnly.of([]),
        EditorState.transactionExtender.of((change) => (change.docChanged ? { effects: setDiagnosticsEffect.of([]) } : null)),
        EditorView.contentAttributes.of({ 'aria-label': options.label, 'data-testid': options.testid, tabindex: '0' }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !isExternal) options.oninput(update.state.doc.toString());
        }),
        typeOver,
        look,
        size,
      ],
    }),
  });

  return {
    setText: (text) => {
      if (text === view.state.doc.toString()) return;
      isExternal = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      isExternal = false;
    },
    setMistake: (mistake) => {
      const { doc } = view.state;
      if (mistake === null || mistake.line < 1 || mistake.line > doc.lines) {
        view.dispatch(setDiagnostics(view.state, []));
        return;
      }
      const line = doc.line(mistake.line);
      const from = line.from + (line.text.length - line.text.trimStart().length);
      view.dispatch(setDiagnostics(view.state, [{ from: Math.min(from, line.to), to: line.to, severity: 'error', message: mistake.message }]));
      view.dispatch({ effects: EditorView.scrollIntoView(line.from, { y: 'center' }) });
    },
    setReadOnly: (isReadOnly) => view.dispatch({ effects: readOnly.reconfigure(isReadOnly ? [EditorState.readOnly.of(true), EditorView.editable.of(false)] : []) }),
    destroy: () => view.destroy(),
  };
}
