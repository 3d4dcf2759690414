// Which rows of a long list are in the document: those in view, some around them, and the active one.
//
// Sizes are measured, positions and scrolling corrected by @tanstack/virtual-core; this class turns it into state.

import { elementScroll, observeElementOffset, observeElementRect, Virtualizer, defaultRangeExtractor, type VirtualItem } from '@tanstack/virtual-core';

export interface VirtualSource {
  /** One key for each row. */
  keys: readonly string[];
  /** The pixels a row takes before it was measured. */
  estimate: number;
  /** A row that stays in the document, such as the one with the focus. */
  keep: number | null;
}

/** Rows around those in view, so that fast scrolling shows no gaps. */
const OVERSCAN = 12;

export class VirtualRows {
  #version = $state(0);
  #margin = $state(0);
  #mounted = $state(false);
  #isUpdating = false;
  #virtualizer: Virtualizer<HTMLElement, HTMLElement>;
  #element: HTMLElement | null = null;
  #source: () => VirtualSource;

  /** The rows to show, in order. */
  readonly items: readonly VirtualItem[] = $derived.by(() => {
    void [this.#version, this.#mounted];
    const { keys } = this.#update();
    return this.#virtualizer.getVirtualItems().filter(({ index }) => index < keys.length);
  });
  /** The pixels behind the last shown row. */
  readonly after: number = $derived.by(() => {
    const last = this.items[this.items.length - 1];
    return last ? Math.max(0, this.#margin + this.#virtualizer.getTotalSize() - last.end) : 0;
  });

  constructor(source: () => VirtualSource) {
    this.#source = source;
    this.#virtualizer = new Virtualizer<HTMLElement, HTMLElement>(this.#options());
  }

  /** The pixels above the row at a place among `items`: what is left out there. */
  before(place: number): number {
    const previous = this.items[place - 1];
    return Math.max(0, (this.items[place]?.start ?? 0) - (previous ? previous.end : this.#margin));
  }

  /** Scrolls by `element`; returns what ends it. */
  mount(element: HTMLElement): () => void {
    this.#element = element;
    this.#mounted = true;
    const end = this.#virtualizer._didMount();
    this.#virtualizer._willUpdate();
    return () => {
      end?.();
      this.#element = null;
      this.#mounted = false;
    };
  }

  /** Tells that rows or sizes around the list have changed; `margin` is how far the list begins below the scrolled content. */
  settle(margin: number): void {
    if (margin !== this.#margin) this.#margin = margin;
    this.#virtualizer._willUpdate();
  }

  /** Measures a row; it needs its index as `data-index`. */
  measure(node: HTMLElement): void {
    this.#virtualizer.measureElement(node);
  }

  forget(): void {
    this.#virtualizer.measureElement(null);
  }

  #options(): ConstructorParameters<typeof Virtualizer<HTMLElement, HTMLElement>>[0] {
    const { keys, estimate, keep } = this.#source();
    return {
      count: keys.length,
      getScrollElement: () => this.#element,
      estimateSize: () => estimate,
      getItemKey: (index) => keys[index] ?? index,
      scrollToFn: elementScroll,
      observeElementRect,
      observeElementOffset,
      overscan: OVERSCAN,
      scrollMargin: this.#margin,
      // New lines above do not move those that are read: with 'end' the library keeps the row at the top of the screen where
      // it is. At the top of the list new lines are shown.
      anchorTo: (this.#element?.scrollTop ?? 0) > this.#margin ? 'end' : 'start',
      rangeExtractor: (range) => {
        const shown = defaultRangeExtractor(range);
        if (keep === null || keep >= range.count || shown.includes(keep)) return shown;
        return [...shown, keep].sort((a, b) => a - b);
      },
      onChange: () => {
        if (!this.#isUpdating) this.#version++;
      },
    };
  }

  #update(): VirtualSource {
    const source = this.#source();
    this.#isUpdating = true;
    this.#virtualizer.setOptions(this.#options());
    this.#isUpdating = false;
    return source;
  }
}
