// Reads JSON lines from a stream of arbitrary chunks.

export type Row = Record<string, string>;

/** A message of the server between rows: why there are no more, or how many lines a tail skipped. */
export interface Note {
  error?: string;
  skipped?: number;
  /** Messages of a cluster's log that a tail missed; they are stored. */
  missed?: number;
}

/** Notes, by the row objects they were parsed into. Fields of a log line are strings, a note is an object: no line can pose as one. */
const notes = new WeakMap<Row, Note>();

/** The note that a row contains; without members if it is a row of the log. */
export function noteOf(row: Row): Note {
  return notes.get(row) ?? {};
}

function toNote(value: object): Note | undefined {
  const entries = Object.entries(value) as [string, unknown][];
  const [name, said] = entries[0] ?? ['', null];
  if (entries.length !== 1 || typeof said !== 'object' || said === null) return undefined;
  const { message, lines, messages } = said as { message?: unknown; lines?: unknown; messages?: unknown };
  if (name === '_error') return { error: typeof message === 'string' ? message : 'The server ended the answer early. Run the query again.' };
  if (name === '_skipped') return { skipped: typeof lines === 'number' ? lines : 0, ...(typeof messages === 'number' ? { missed: messages } : {}) };
  return undefined;
}

/** A longer line cannot be an answer of Loginson; reading ends with an error. */
const LINE_CHARS_MAX = 64 * 1024 * 1024;

/** Collects chunks of text and returns the rows of all complete lines. Empty lines (keep-alives) are skipped. */
export class JsonLines {
  #rest: string[] = [];
  #restChars = 0;

  push(chunk: string): Row[] {
    const rows: Row[] = [];
    let from = 0;
    for (let at = chunk.indexOf('\n'); at >= 0; at = chunk.indexOf('\n', from)) {
      this.#rest.push(chunk.slice(from, at));
      from = at + 1;
      this.#take(rows);
    }
    if (from < chunk.length) {
      this.#rest.push(chunk.slice(from));
      this.#restChars += chunk.length - from;
      if (this.#restChars > LINE_CHARS_MAX) throw new Error('The server sent a line of more than 64 MiB.');
    }
    return rows;
  }

  /** The last line, if the stream ended without a newline. */
  end(): Row[] {
    const rows: Row[] = [];
    this.#take(rows);
    return rows;
  }

  #take(rows: Row[]): void {
    const line = this.#rest.length === 1 ? (this.#rest[0] as string) : this.#rest.join('');
    this.#rest = [];
    this.#restChars = 0;
    if (line.trim() === '') return;
    rows.push(toRow(JSON.parse(line)));
  }
}

/** Rows are objects of strings; any other value that a server might send is shown as JSON rather than lost. */
function toRow(value: unknown): Row {
  if (typeof value !== 'object' || value === null) return { _msg: String(value) };
  // Without a prototype, so that a field named `__proto__` is a normal field.
  const row = Object.create(null) as Row;
  for (const [name, field] of Object.entries(value)) {
    row[name] = typeof field === 'string' ? field : JSON.stringify(field);
  }
  const note = toNote(value);
  if (note) notes.set(row, note);
  return row;
}

/**
 * Calls `take` with the rows of each chunk until the stream ends, and `onheard` for each chunk, also one without rows.
 * Aborting the request ends it with an `AbortError`.
 */
export async function readJsonLines(body: ReadableStream<Uint8Array>, take: (rows: Row[]) => void, onheard: () => void = () => {}): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const lines = new JsonLines();
  for (;;) {
    const { done, value } = await reader.read();
    if (!done) onheard();
    const rows = done ? [...lines.push(decoder.decode()), ...lines.end()] : lines.push(decoder.decode(value, { stream: true }));
    if (rows.length > 0) take(rows);
    if (done) return;
  }
}
