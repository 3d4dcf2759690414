import { expect, test } from 'vitest';
import { JsonLines, noteOf, readJsonLines, type Row } from '../../src/lib/base/jsonl';

const TEXT = '{"a":"1"}\n\n{"b":"ü😀\\n"}\r\n{"n":3,"o":{"x":[1]},"z":null}\n{"last":"no newline"}';
const ROWS = [{ a: '1' }, { b: 'ü😀\n' }, { n: '3', o: '{"x":[1]}', z: 'null' }, { last: 'no newline' }];

test('every cut into two gives the same rows', () => {
  for (let cut = 0; cut <= TEXT.length; cut++) {
    const lines = new JsonLines();
    expect([...lines.push(TEXT.slice(0, cut)), ...lines.push(TEXT.slice(cut)), ...lines.end()]).toEqual(ROWS);
  }
});

test('one character at a time gives the same rows', () => {
  const lines = new JsonLines();
  const rows = [...TEXT].flatMap((char) => lines.push(char));
  expect([...rows, ...lines.end()]).toEqual(ROWS);
});

test('a stream of bytes cut inside characters', async () => {
  const bytes = new TextEncoder().encode(TEXT);
  for (const size of [1, 2, 3, 7, 1000]) {
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
        controller.close();
      },
    });
    const rows: Row[] = [];
    await readJsonLines(body, (more) => rows.push(...more));
    expect(rows).toEqual(ROWS);
  }
});

test('rubbish is an error, not a row', () => {
  expect(() => new JsonLines().push('{"a":\n')).toThrow();
});

test('notes of the server are distinguished from lines that look like them', () => {
  const read = (line: string) => noteOf(new JsonLines().push(line + '\n')[0] as Row);
  expect(read('{"_error":{"message":"too slow"}}')).toEqual({ error: 'too slow' });
  expect(read('{"_error":{}}').error).toBeTruthy();
  expect(read('{"_skipped":{"lines":123}}')).toEqual({ skipped: 123 });
  for (const line of [
    '{"_error":"gone"}',
    '{"_skipped":"99"}',
    '{"_error":"{\\"message\\":\\"gone\\"}"}',
    '{"_error":{"message":"x"},"_msg":"y"}',
    '{"_msg":"_error","_time":"1"}',
    '{"_error":null}',
    '[]',
  ]) {
    expect(read(line), line).toEqual({});
  }
});

test('every field name is allowed', () => {
  const [row] = new JsonLines().push('{"__proto__":"x","constructor":"y"}\n');
  expect(Object.entries(row ?? {})).toEqual([['__proto__', 'x'], ['constructor', 'y']]);
});

test('nothing gives nothing', () => {
  const lines = new JsonLines();
  expect([...lines.push(''), ...lines.push('\n\n'), ...lines.end()]).toEqual([]);
});
