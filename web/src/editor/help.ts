// Help on a pipe, function or filter: what the pointer rests on, and the chosen completion.

import { hoverTooltip } from '@codemirror/view';
import { helpOn, type HelpEntry } from '../lib/query/logsqlHelp';
import { readParts } from '../lib/query/logsqlParts';
import { COLORED_CHARS_MAX } from './highlight';

/** Only texts of this program and of the server's documentation, written as text. */
export function helpElement({ syntax, summary, example }: HelpEntry): HTMLElement {
  const element = document.createElement('div');
  element.className = 'help';
  element.dataset['testid'] = 'query-help';
  const line = (tag: string, name: string, text: string): void => {
    const child = document.createElement(tag);
    child.className = name;
    child.textContent = text;
    element.append(child);
  };
  line('code', 'syntax', syntax);
  line('div', 'summary', `${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`);
  line('code', 'example', example);
  return element;
}

export const helpOnHover = hoverTooltip((view, position, side) => {
  if (view.state.doc.length > COLORED_CHARS_MAX) return null;
  const part = readParts(view.state.doc.toString()).parts.find(({ from, to }) => (side < 0 ? from < position && position <= to : from <= position && position < to));
  if (part === undefined || (part.role !== 'pipe' && part.role !== 'function' && part.role !== 'filter')) return null;
  const entry = helpOn(part.role, part.text);
  return entry && { pos: part.from, end: part.to, above: false, create: () => ({ dom: helpElement(entry) }) };
});
