// Annotations: what people did, such as a deployment, marked on the time axis. An annotation is a line with a field
// `annotation`, sent like any other: it is kept, searched and deleted as lines are, and every sender can write one.

import { call, type CallOptions } from '../api/call';
import { queryLines } from '../api/queries';
import type { Row } from '../base/jsonl';
import type { TimeMark } from '../chart/series';
import { timeToMs, type Span } from '../base/time';

export const ANNOTATION_FIELD = 'annotation';
export const ANNOTATION_CHARS_MAX = 500;
/** Most marks of one chart; the newest ones. */
const MARKS_MAX = 200;

export function marksOfAnnotations(rows: readonly Row[]): TimeMark[] {
  return rows.flatMap((row) => {
    const [ms, text] = [timeToMs(row['_time'] ?? ''), row[ANNOTATION_FIELD] ?? ''];
    return Number.isFinite(ms) && text !== '' ? [{ ms, text: text.slice(0, ANNOTATION_CHARS_MAX), tone: 'note' as const }] : [];
  });
}

/** The annotations of a range, as marks. */
export async function annotationMarks(span: Span, options: CallOptions): Promise<TimeMark[]> {
  const rows: Row[] = [];
  const query = `${ANNOTATION_FIELD}:* | fields _time, ${ANNOTATION_FIELD} | sort by (_time desc) | limit ${MARKS_MAX}`;
  await queryLines({ query, span, limit: MARKS_MAX }, (more) => rows.push(...more), options);
  return marksOfAnnotations(rows);
}

/** Writes an annotation. */
export async function annotate(text: string, ms: number): Promise<void> {
  const line = { _time: new Date(ms).toISOString(), app: 'annotation', _msg: text, [ANNOTATION_FIELD]: text };
  await call('/insert/jsonline', { _stream_fields: 'app' }, { body: { type: 'application/stream+json', text: `${JSON.stringify(line)}\n` } }, 'POST');
}
