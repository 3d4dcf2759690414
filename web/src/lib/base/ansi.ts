// Colours of terminals in messages. Sequences of ECMA-48 are taken out of the text and become class names, never markup: a
// sequence of a log can choose among the colours below and nothing else.

/** The names of the classes are `ansi-NAME`; the theme gives each colour a tone that can be read on its background. */
const COLOURS = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'] as const;

export interface AnsiRun {
  from: number;
  to: number;
  /** Names of classes, separated by blanks. */
  classes: string;
}

export interface AnsiText {
  /** The text without sequences. */
  text: string;
  /** Its parts that are not plain, in order. */
  runs: AnsiRun[];
}

/**
 * CSI sequences, strings up to their end (such as titles and links of terminals), and two-character sequences. `#033` is
 * how rsyslog writes the escape character by default.
 */
const SEQUENCE = /(?:\x1b|#033(?=\[))(?:\[([0-9:;<=>?]*)[ -/]*([@-~])|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_`-~])|\x9b([0-9:;]*)m/g;

interface Style {
  fg: string | null;
  bg: string | null;
  attributes: Set<string>;
}

export function ansiText(message: string): AnsiText {
  if (!/[\x1b\x9b]|#033\[/.test(message)) return { text: message, runs: [] };
  const style: Style = { fg: null, bg: null, attributes: new Set() };
  const runs: AnsiRun[] = [];
  let text = '';
  let done = 0;
  const take = (to: number): void => {
    const from = text.length;
    text += message.slice(done, to);
    const classes = classesOf(style);
    if (classes !== '' && text.length > from) runs.push({ from, to: text.length, classes });
  };
  for (const match of message.matchAll(SEQUENCE)) {
    take(match.index);
    done = match.index + match[0].length;
    if (match[2] === 'm') apply(style, match[1] ?? '');
    else if (match[3] !== undefined) apply(style, match[3]);
  }
  take(message.length);
  return { text, runs };
}

/** The text without sequences. */
export function plainText(message: string): string {
  return ansiText(message).text;
}

const ON = new Map([[1, 'bold'], [2, 'dim'], [3, 'italic'], [4, 'underline'], [7, 'inverse'], [9, 'strike']]);
const OFF = new Map([[22, ['bold', 'dim']], [23, ['italic']], [24, ['underline']], [27, ['inverse']], [29, ['strike']]]);

function apply(style: Style, params: string): void {
  const codes = params.split(/[;:]/).map((code) => (code === '' ? 0 : Number(code)));
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at] as number;
    if (code === 0) Object.assign(style, { fg: null, bg: null, attributes: new Set() });
    else if (ON.has(code)) style.attributes.add(ON.get(code) as string);
    else if (OFF.has(code)) for (const name of OFF.get(code) ?? []) style.attributes.delete(name);
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) style.fg = COLOURS[code % 10] as string;
    else if ((code >= 40 && code <= 47) || (code >= 100 && code <= 107)) style.bg = COLOURS[code % 10] as string;
    else if (code === 39) style.fg = null;
    else if (code === 49) style.bg = null;
    else if (code === 38 || code === 48) {
      const colour = codes[at + 1] === 5 ? fromPalette(codes[at + 2] ?? 0) : nearest(codes[at + 2] ?? 0, codes[at + 3] ?? 0, codes[at + 4] ?? 0);
      at += codes[at + 1] === 5 ? 2 : 4;
      if (code === 38) style.fg = colour;
      else style.bg = colour;
    }
  }
}

/** A colour of the palette of 256. */
function fromPalette(code: number): string {
  if (code < 16) return COLOURS[code % 8] as string;
  if (code >= 232) return code < 244 ? 'black' : 'white';
  const cube = code - 16;
  const level = (step: number): number => (step === 0 ? 0 : 55 + 40 * step);
  return nearest(level(Math.floor(cube / 36) % 6), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

/** The named colour that is most like this one. */
function nearest(red: number, green: number, blue: number): string {
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  if (most - least < 40) return most < 128 ? 'black' : 'white';
  const middle = (most + least) / 2;
  return COLOURS[(red > middle ? 1 : 0) + (green > middle ? 2 : 0) + (blue > middle ? 4 : 0)] as string;
}

function classesOf({ fg, bg, attributes }: Style): string {
  return [...(fg ? [`ansi-${fg}`] : []), ...(bg ? [`ansi-on ansi-on-${bg}`] : []), ...[...attributes].map((name) => `ansi-${name}`)].join(' ');
}
