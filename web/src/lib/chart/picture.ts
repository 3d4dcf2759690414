// The chart that is drawn in an element, as a picture with its title. A list or table has none.

/** A canvas with the background of `card`, `name` as its title, and the first chart in `card`; null if there is none. */
export function pictureOf(card: HTMLElement, name: string): HTMLCanvasElement | null {
  const drawn = card.querySelector('canvas');
  if (!drawn) return null;
  const scale = drawn.width / Math.max(1, drawn.getBoundingClientRect().width);
  const head = Math.round(30 * scale);
  const picture = Object.assign(document.createElement('canvas'), { width: drawn.width, height: drawn.height + head });
  const context = picture.getContext('2d') as CanvasRenderingContext2D;
  const style = getComputedStyle(card);
  context.fillStyle = style.backgroundColor;
  context.fillRect(0, 0, picture.width, picture.height);
  context.fillStyle = style.color;
  context.font = `600 ${Math.round(14 * scale)}px ${style.fontFamily}`;
  context.fillText(name, 10 * scale, 20 * scale, picture.width - 20 * scale);
  context.drawImage(drawn, 0, head);
  return picture;
}

/** Has the browser save a file. */
export function saveFile(content: Blob, name: string): void {
  const url = URL.createObjectURL(content);
  Object.assign(document.createElement('a'), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
