// The query box as an editor: colours, completion, help, the mark of an error. A file of its own,
// loaded when the page is idle: until then, and if it cannot be loaded, a plain text area does the
// same job (components/QueryBar.svelte).

import { acceptCompletion, autocompletion, closeCompletion, completionStatus, moveCompletionSelection, selectedCompletionIndex } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, insertNewline } from '@codemirror/commands';
import { setDiagnostics, setDiagnosticsEffect } from '@codemirror/lint';
import { Annotation, EditorState, Prec } from '@codemirror/state';
import { EditorView, keymap, placeholder, tooltips, type Rect } from '@codemirror/view';
import type { Span } from '../lib/base/time';
import { completionSource } from './completions';
import { helpOnHover } from './help';
import { highlighting } from './highlight';
import { look, shadowOf, typeOver } from './theme';

export interface QueryEditorOptions {
  host: HTMLElement;
  text: string;
  label: string;
  placeholder: string;
  /** The range whose fields and values complete the query. */
  span: () => Span;
  oninput: (text: string) => void;
  onrun: () => void;
  /**
   * The earlier (-1) or later (1) query of the history, or null for the usual meaning of the arrow.
   */
  onrecall: (step: -1 | 1) => string | null;
}

/** A place of the text that the server did not understand. */
export interface Mistake {
  from: number;
  message: string;
}

export interface QueryEditor {
  /** Shows another text, with the caret at its end. */
  setText: (text: string) => void;
  /** Marks a mistake until the text is changed. */
  setMistake: (mistake: Mistake | null) => void;
  focus: () => void;
  select: (from: number, to: number) => void;
  destroy: () => void;
}

const COMPLETION_DELAY_MS = 120;
/** Marks changes that do not come from the user. */
const external = Annotation.define<boolean>();

/** Eight lines and the padding; a longer query scrolls. */
const size = EditorView.theme({
  '&': { minHeight: '30px' },
  '.cm-scroller': { maxHeight: `${8 * 18 + 12}px`, overflow: 'auto' },
  '.cm-content': { padding: '6px 0' },
  '.cm-line': { padding: '0 10px' },
  '.cm-placeholder': { display: 'inline-block', maxWidth: '100%', overflow: 'hidden', textOverflow: 'ellipsis', whiteSpace: 'nowrap', verticalAlign: 'top' },
});

/** The text with the line ends of the editor, so that positions in both agree. */
function asLines(text: string): string {
  return text.replace(/\r\n?/g, '\n');
}

/**
 * Where the help of a completion stands: beside the list, or below it where the screen is narrow.
 */
function besideOrBelow(_view: EditorView, list: Rect, _option: Rect, info: Rect, space: Rect): { style: string; class: string } {
  const width = info.right - info.left;
  if (list.right + width <= space.right) return { style: 'top: 0; left: 100%', class: '' };
  if (list.left - width >= space.left) return { style: 'top: 0; right: 100%', class: '' };
  return { style: `top: ${list.bottom - list.top}px; left: 0`, class: '' };
}

/** Takes the first completion if none is chosen. */
function takeCompletion(view: EditorView): boolean {
  if (completionStatus(view.state) !== 'active') return false;
  if (selectedCompletionIndex(view.state) === null) moveCompletionSelection(true)(view);
  acceptCompletion(view);
  return true;
}

export function openQueryEditor(options: QueryEditorOptions): QueryEditor {
  const root = shadowOf(options.host);
  const begin = asLines(options.text);
  const recall = (step: -1 | 1) => (view: EditorView): boolean => {
    const { state } = view;
    const line = state.doc.lineAt(state.selection.main.head).number;
    if (completionStatus(state) === 'active' || line !== (step < 0 ? 1 : state.doc.lines)) return false;
    const text = options.onrecall(step);
    if (text !== null) show(text);
    return text !== null;
  };
  const run = (view: EditorView): boolean => {
    closeCompletion(view);
    options.onrun();
    return true;
  };
  const leave = (view: EditorView): boolean => {
    view.contentDOM.blur();
    return true;
  };
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: begin,
      selection: { anchor: begin.length },
      extensions: [
        history(),
        // Behind the keys of an open list of completions, before the usual ones.
        Prec.high(
          keymap.of([
            { key: 'Enter', run, shift: insertNewline },
            { key: 'Mod-Enter', run },
            { key: 'Tab', run: takeCompletion },
            { key: 'Escape', run: leave, stopPropagation: true },
            { key: 'ArrowUp', run: recall(-1) },
            { key: 'ArrowDown', run: recall(1) },
          ]),
        ),
        keymap.of([...historyKeymap, ...defaultKeymap]),
        autocompletion({
          override: [completionSource(options.span)],
          activateOnTypingDelay: COMPLETION_DELAY_MS,
          interactionDelay: 0,
          selectOnOpen: false,
          icons: false,
          positionInfo: besideOrBelow,
          maxRenderedOptions: 50,
        }),
        highlighting,
        helpOnHover,
        tooltips({ position: 'fixed' }),
        placeholder(options.placeholder),
        EditorView.lineWrapping,
        EditorState.transactionExtender.of((change) => (change.docChanged ? { effects: setDiagnosticsEffect.of([]) } : null)),
        EditorView.contentAttributes.of({ 'aria-label': options.label, 'data-testid': 'query-input', tabindex: '0' }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !update.transactions.some((change) => change.annotation(external))) options.oninput(update.state.doc.toString());
        }),
        typeOver,
        look,
        size,
      ],
    }),
  });

  function show(text: string, isExternal = false): void {
    const insert = asLines(text);
    if (insert === view.state.doc.toString()) return;
    view.dispatch({
      changes: { from: 0, to: view.state.doc.length, insert },
      selection: { anchor: insert.length },
      scrollIntoView: true,
      ...(isExternal ? { annotations: external.of(true) } : {}),
    });
  }

  return {
    setText: (text) => show(text, true),
    setMistake: (mistake) => {
      const { doc } = view.state;
      if (mistake === null || mistake.from > doc.length) {
        view.dispatch(setDiagnostics(view.state, []));
        return;
      }
      const { from, message } = mistake;
      const word = view.state.wordAt(from);
      const to = word !== null && word.from === from ? word.to : Math.min(from + 1, doc.lineAt(from).to);
      view.dispatch(setDiagnostics(view.state, [{ from, to, severity: 'error', message }]));
    },
    focus: () => view.focus(),
    select: (from, to) => view.dispatch({ selection: { anchor: Math.min(from, view.state.doc.length), head: Math.min(to, view.state.doc.length) } }),
    destroy: () => view.destroy(),
  };
}
