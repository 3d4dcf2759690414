import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Tail } from '../../src/lib/state/tail.svelte';

/** The connections, in their order: what was asked, and how the server sends and ends. */
let connections: { offset: string | null; send: (text: string) => void; end: () => void }[];

beforeEach(() => {
  vi.useFakeTimers();
  connections = [];
  vi.stubGlobal('fetch', (url: string) => {
    const params = new URL(url, 'http://server').searchParams;
    let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
    const body = new ReadableStream<Uint8Array>({ start: (given) => void (controller = given) });
    connections.push({
      offset: params.get('start_offset'),
      send: (text) => controller?.enqueue(new TextEncoder().encode(text)),
      end: () => controller?.close(),
    });
    return Promise.resolve(new Response(body));
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const line = (id: string): string => `${JSON.stringify({ _time: '2026-01-31T12:00:00Z', _msg: id, _line_id: id })}\n`;

const after = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);
const connection = (count: number): (typeof connections)[number] => {
  expect(connections).toHaveLength(count);
  return connections[count - 1] as (typeof connections)[number];
};
const shown = (tail: Tail): (string | undefined)[] => tail.rows.map((row) => row['_msg']);

test('a new connection begins where the last one was heard', async () => {
  const tail = new Tail();
  tail.start('*');
  const first = connection(1);
  expect(first.offset).toBeNull();
  first.send(line('a'));
  await after(7_200_000);
  expect(shown(tail)).toEqual(['a']);
  // A connection without lines is heard all the same.
  first.send('\n');
  await after(0);
  await after(60_000);
  first.end();
  await after(1_000);
  const second = connection(2);
  expect(Number(second.offset?.replace('s', ''))).toBeGreaterThanOrEqual(65);
  expect(Number(second.offset?.replace('s', ''))).toBeLessThan(80);
  // A line that was shown before is sent once more.
  second.send(line('a') + line('b') + line('b'));
  await after(1_000);
  expect(shown(tail)).toEqual(['b', 'a']);
  expect(tail.hasGap).toBe(false);
  tail.stop();
});

test('a gap that the server cannot fill is told', async () => {
  const tail = new Tail();
  tail.start('*');
  connection(1).send(line('a'));
  await after(0);
  await after(3_700_000);
  connection(1).end();
  await after(1_000);
  expect(connection(2).offset).toBe('3600s');
  expect(tail.hasGap).toBe(true);
  tail.stop();
});

test('a connection that died without a word is made anew', async () => {
  let count = 0;
  vi.stubGlobal('fetch', (_: string, { signal }: RequestInit) => {
    count++;
    const start = (given: ReadableStreamDefaultController<Uint8Array>): void => signal?.addEventListener('abort', () => given.error(new DOMException('aborted', 'AbortError')));
    return Promise.resolve(new Response(new ReadableStream<Uint8Array>({ start })));
  });
  const tail = new Tail();
  tail.start('*');
  await after(29_000);
  expect([count, tail.connected]).toEqual([1, true]);
  await after(2_000);
  expect([count, tail.connected, tail.error]).toEqual([2, true, null]);
  tail.stop();
  await after(60_000);
  expect([count, tail.connected]).toEqual([2, false]);
});
