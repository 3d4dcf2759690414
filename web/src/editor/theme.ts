// How editors look, in the colours of the style sheet. CodeMirror makes style sheets by script: the
// content security policy permits that within a shadow root, where it uses constructed style
// sheets, and forbids the style elements that it would put into the page.

import { EditorView } from '@codemirror/view';

/** A shadow root below `host` for an editor. */
export function shadowOf(host: HTMLElement): ShadowRoot {
  return host.shadowRoot ?? host.attachShadow({ mode: 'open' });
}

/**
 * Text that replaces a selection, put in place by the editor. The browser would keep the colours of
 * the selection in a style attribute, which the policy forbids too. A composition stays with the
 * browser.
 */
export const typeOver = EditorView.domEventHandlers({
  beforeinput: (event, view) => {
    if (event.inputType !== 'insertText' || event.data === null || view.composing || view.state.readOnly || view.state.selection.main.empty) return false;
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: 'input.type', scrollIntoView: true });
    event.preventDefault();
    return true;
  },
});

export const look = EditorView.theme({
  '&': { color: 'var(--text)', backgroundColor: 'transparent', fontSize: '13px' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '18px' },
  '.cm-content': { caretColor: 'var(--text)' },
  '.cm-placeholder': { color: 'var(--faint)' },
  '.cm-tooltip': {
    border: '1px solid var(--border-strong)',
    borderRadius: 'var(--radius)',
    backgroundColor: 'var(--raised)',
    color: 'var(--text)',
    boxShadow: 'var(--shadow)',
    zIndex: '60',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--mono)', maxHeight: '260px', maxWidth: 'min(560px, 92vw)', minWidth: 'min(260px, 80vw)' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li': { display: 'flex', justifyContent: 'space-between', gap: '16px', padding: '3px 8px', lineHeight: '18px' },
  '.cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]': { backgroundColor: 'var(--accent-soft)', color: 'var(--text)' },
  '.cm-completionLabel': { overflow: 'hidden', textOverflow: 'ellipsis' },
  '.cm-completionMatchedText': { textDecoration: 'none', fontWeight: '700' },
  '.cm-completionDetail': { margin: '0', fontStyle: 'normal', fontFamily: 'var(--sans)', color: 'var(--muted)' },
  '.cm-tooltip.cm-completionInfo': { padding: '0', maxWidth: 'min(380px, 92vw)' },
  '.help': { maxWidth: 'min(420px, 92vw)', padding: '6px 10px', fontFamily: 'var(--sans)', fontSize: '13px', lineHeight: '18px' },
  '.help code': { display: 'block', fontFamily: 'var(--mono)', fontSize: '12px', whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' },
  '.help .summary': { margin: '4px 0' },
  '.help .example': { color: 'var(--accent)' },
  '.cm-diagnostic': { padding: '6px 10px', borderLeft: '3px solid var(--bad)', fontFamily: 'var(--sans)', maxWidth: 'min(420px, 92vw)' },
  '.cm-lintRange-error': { backgroundImage: 'none', textDecoration: 'underline wavy var(--bad)', textDecorationSkipInk: 'none', backgroundColor: 'var(--bad-soft)' },
  '.cm-lintPoint-error:after': { borderBottomColor: 'var(--bad)' },
});
