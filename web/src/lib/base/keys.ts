// Keys that work everywhere on the page, but not while somebody types.

/** Whether the event comes from where text is typed, also within an editor's shadow root. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** Gives the focus to the query box; set by the box that is on the page. */
export const queryBox = { focus: (): void => {} };
