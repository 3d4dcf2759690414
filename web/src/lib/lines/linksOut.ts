// Links from a line to other programs and to runbooks, made by templates that everybody shares: the
// document `_links` among the dashboards. Pure; linksOut.svelte.ts keeps them.
//
// Values of lines are data: they are written into an address only behind its host, in percent
// encoding, and never as a step of a path to the folder above, so a line cannot lead elsewhere than
// the template does. A pattern is compared without regular expressions, in time linear in the message.

import type { Row } from '../base/jsonl';

export interface LinkTemplate {
  name: string;
  /** An address of http or https, with `{field}` for values of the line. */
  url: string;
  /**
   * What the message has to contain, with `*` for any text: makes a link a runbook. Empty for every
   * line.
   */
  pattern: string;
}

/** Templates and what of the server's document they belong to. */
export interface LinkTemplates {
  /** The version that was read; 0 if there is no document yet. */
  version: number;
  links: LinkTemplate[];
}

/** The document's id among the dashboards. */
export const LINKS_ID = '_links';
/** A further template is refused. */
export const LINKS_MAX = 100;
/** Links of a line that are shown. */
export const LINKS_OF_LINE_MAX = 8;
const CHARS_MAX = 2_000;

const FIELD = /\{([^{}]+)\}/g;
/** A step of a path that browsers take for its folder or for the one above. Encoding it does not help. */
const DOTS = /\/(?:\.|%2e){1,2}(?:[/?#]|$)/i;

/** What is wrong with a template, in words; null if nothing is. */
export function templateProblem({ name, url, pattern }: LinkTemplate): string | null {
  if (name.trim() === '' || name.length > 100) return 'A link needs a name of at most 100 characters.';
  if (url.length > CHARS_MAX || pattern.length > CHARS_MAX) return `Address and pattern have at most ${CHARS_MAX} characters.`;
  const start = /^https?:\/\/[^/?#{}\s@]+(?=[/?#]|$)/.exec(url);
  if (!start) return 'The address begins with http:// or https:// and the name of a host; fields may stand behind the host only.';
  try {
    return new URL(url.replace(FIELD, 'x')) && null;
  } catch {
    return 'This is no address.';
  }
}

function isTemplate(value: unknown): value is LinkTemplate {
  const { name, url, pattern } = (value ?? {}) as Partial<Record<keyof LinkTemplate, unknown>>;
  return typeof name === 'string' && typeof url === 'string' && typeof pattern === 'string' && templateProblem({ name, url, pattern }) === null;
}

/** Reads the document; what is no template is left out. */
export function readLinks(value: unknown): LinkTemplates {
  const { version, links } = (value ?? {}) as { version?: unknown; links?: unknown };
  const list = Array.isArray(links) ? (links as unknown[]).map((one) => ({ pattern: '', ...(one as object) })).filter(isTemplate) : [];
  return { version: typeof version === 'number' ? version : 0, links: list.slice(0, LINKS_MAX).map(({ name, url, pattern }) => ({ name, url, pattern })) };
}

/** The document as the server keeps it; a dashboard must have panels. */
export function writeLinks({ version, links }: LinkTemplates): string {
  return JSON.stringify({ id: LINKS_ID, title: 'Links of lines', version, panels: [], links });
}

/** Whether a message contains the pattern, whose `*` stand for any text. Case does not matter. */
export function containsPattern(message: string, pattern: string): boolean {
  const text = message.toLowerCase();
  let at = 0;
  for (const part of pattern.toLowerCase().split('*')) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return true;
}

/**
 * The links of a line: of templates whose pattern is in its message and whose fields it has;
 * runbooks first.
 */
export function linksOf(row: Row, templates: readonly LinkTemplate[]): { name: string; href: string; isRunbook: boolean }[] {
  const links = templates.flatMap((template) => {
    const { name, url, pattern } = template;
    if (!containsPattern(row['_msg'] ?? '', pattern) || templateProblem(template) !== null) return [];
    const fields = [...url.matchAll(FIELD)].map(([, field]) => field as string);
    if (fields.some((field) => (row[field] ?? '') === '')) return [];
    const href = url.replace(FIELD, (_, field: string) => encodeURIComponent((row[field] as string).replace(/\p{Surrogate}/gu, '\ufffd')));
    return DOTS.test(href) ? [] : [{ name, href, isRunbook: pattern !== '' }];
  });
  return links.sort((a, b) => Number(b.isRunbook) - Number(a.isRunbook)).slice(0, LINKS_OF_LINE_MAX);
}
