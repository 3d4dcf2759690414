import { expect, test } from 'vitest';
import type { QueueEntry } from '../../src/lib/api/queue';
import { numbersQuery } from '../../src/lib/lines/facets';
import { clicksOf, whoOf } from '../../src/lib/lines/clicks';

let next = 1;
const entry = (kind: string, query: string, second: number, client = '10.0.0.1:4000'): QueueEntry => ({
  id: String(next++), kind, query, state: 'done', position: null, started: `2026-01-01T00:00:${String(second).padStart(2, '0')}Z`, wait_ms: 0, run_ms: 0, left_ms: null, progress: 1,
  blocks_done: 0, blocks_planned: 0, bytes_scanned: 0, bytes_planned: 0, lines_scanned: 0, rows: 0, memory_bytes: 0, error: null, client,
});
const shown = (entries: readonly QueueEntry[]): string[] => clicksOf(entries).map(({ entry, others }) => `${entry.kind} ${entry.query}${others.map(({ kind }) => ` +${kind}`).join('')}`);

test('the queries of one search are one entry', () => {
  const filter = 'a status:="500"';
  const entries = [
    entry('query', 'b', 9),
    entry('query', numbersQuery(filter, ['took']), 3),
    entry('field_names', filter, 4),
    entry('query', `${filter} | stats by (_time:60s) quantile(0.9, took) n`, 3),
    entry('field_values', 'a', 2),
    entry('facets', filter, 2),
    entry('hits', filter, 1, '10.0.0.1:4001'),
    entry('query', `${filter} | limit 5`, 1),
  ];
  expect(shown(entries)).toEqual(['query b', `query ${filter} | limit 5 +hits +field_values +facets +query +query +field_names`]);
});

test('those of other clients, other filters and other times stay apart', () => {
  expect(shown([entry('hits', 'a', 1, '10.0.0.2:1'), entry('query', 'a', 1)])).toEqual(['hits a', 'query a']);
  expect(shown([entry('hits', 'b', 1), entry('query', 'a', 1)])).toEqual(['hits b', 'query a']);
  expect(shown([entry('hits', 'a', 45), entry('query', 'a', 1)])).toEqual(['hits a', 'query a']);
});

test('a refresh asks the same again and is an entry of its own', () => {
  expect(shown([entry('hits', 'a', 11), entry('query', 'a', 11), entry('hits', 'a', 1), entry('query', 'a', 1)])).toEqual(['query a +hits', 'query a +hits']);
});

test('a live tail counts without lines', () => expect(shown([entry('facets', 'a', 2), entry('hits', 'a', 1)])).toEqual(['hits a +facets']));

test.each([['ann 10.0.0.1:4000', 'ann'], ['10.0.0.1:4000', '10.0.0.1'], ['[::1]:80', '[::1]']])('%s is %s', (client, who) => expect(whoOf({ client })).toBe(who));
