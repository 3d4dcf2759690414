// The colours of the style sheet for what is drawn on a canvas, which knows no custom properties.

class Theme {
  /** `light` or `dark`; what draws colours reads it, so that it is drawn again when the theme changes. */
  name = $state('light');
  #probe: HTMLElement | null = null;
  #pixel: CanvasRenderingContext2D | null = null;
  #known = new Map<string, string>();

  constructor() {
    const root = document.documentElement;
    const read = (): void => {
      this.#known.clear();
      this.name = root.dataset['theme'] ?? 'light';
    };
    read();
    new MutationObserver(read).observe(root, { attributes: true, attributeFilter: ['data-theme'] });
  }

  /**
   * A colour of CSS, such as `var(--accent)` or a mix, as `rgba(…)`: ECharts computes with colours, and knows no newer
   * notation.
   */
  color(css: string): string {
    void this.name;
    const known = this.#known.get(css);
    if (known !== undefined) return known;
    if (!this.#probe) {
      this.#probe = document.createElement('span');
      this.#probe.hidden = true;
      document.body.append(this.#probe);
    }
    this.#probe.style.color = css;
    const color = this.#rgba(getComputedStyle(this.#probe).color);
    this.#known.set(css, color);
    return color;
  }

  #rgba(color: string): string {
    this.#pixel ??= Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
    if (!this.#pixel) return color;
    this.#pixel.clearRect(0, 0, 1, 1);
    this.#pixel.fillStyle = color;
    this.#pixel.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha = 255] = this.#pixel.getImageData(0, 0, 1, 1).data;
    return `rgba(${red},${green},${blue},${Number((alpha / 255).toFixed(3))})`;
  }
}

export const theme = new Theme();
