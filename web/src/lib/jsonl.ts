// Reads JSON lines from a stream that is cut anywhere.

export type Row = Record<string, string>;

/** A line longer than this is no answer of Loginson; the stream is given up with an error. */
const LINE_CHARS_MAX = 64 * 1024 * 1024;

/** Collects chunks of text and gives back the rows of every line that is complete. Empty lines (keep-alives) are skipped. */
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

  /** The last line, when the stream ended without a newline. */
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

/** Rows are objects of strings; anything else a server might send is shown as JSON rather than lost. */
function toRow(value: unknown): Row {
  if (typeof value !== 'object' || value === null) return { _msg: String(value) };
  // Without a prototype, so that also a field named `__proto__` is a field.
  const row = Object.create(null) as Row;
  for (const [name, field] of Object.entries(value)) {
    row[name] = typeof field === 'string' ? field : JSON.stringify(field);
  }
  return row;
}

/** Calls `take` with the rows of each chunk until the stream ends. Aborting the request ends it with an `AbortError`. */
export async function readJsonLines(body: ReadableStream<Uint8Array>, take: (rows: Row[]) => void): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const lines = new JsonLines();
  for (;;) {
    const { done, value } = await reader.read();
    const rows = done ? [...lines.push(decoder.decode()), ...lines.end()] : lines.push(decoder.decode(value, { stream: true }));
    if (rows.length > 0) take(rows);
    if (done) return;
  }
}
