import { describe, expect, test } from 'vitest';
import { callOf, macrosFor, replacesAnother, type Macro } from '../../src/lib/api/ingest';

const macro = (name: string, form: Macro['form'], parameters: string[] = []): Macro => ({ name, form, parameters, text: '', description: '', source: 'saved' });

describe('macros', () => {
  const known = [macro('slow', 'filter', ['field', 'limit']), macro('shop', 'query'), macro('busiest', 'pipes', ['by'])];

  test.each([
    ['@s', 'field', ['slow', 'shop']],
    ['@', 'field', ['slow', 'shop']],
    ['@sl', 'field', ['slow']],
    ['@', 'pipe', ['busiest']],
    ['@s', 'pipe', []],
    ['s', 'field', []],
    ['', 'pipe', []],
  ] as const)('%j as a %s', (typed, kind, names) => expect(macrosFor(known, typed, kind).map(({ name }) => name)).toEqual(names));

  test('do not replace those of somebody else', () => {
    const [slow] = known;
    expect(replacesAnother(known, 'fresh', null)).toBeNull();
    expect(replacesAnother(known, 'slow', null)).toContain('already');
    expect(replacesAnother(known, 'slow', slow ?? null)).toBeNull();
    expect(replacesAnother(known, 'slow', macro('slow', 'filter', ['field']))).toContain('meanwhile');
    expect(replacesAnother(known, 'slow', macro('shop', 'query'))).toContain('already');
    // What is configured is refused by the server, which says where to change it.
    expect(replacesAnother([{ ...macro('slow', 'filter'), source: 'configuration' }], 'slow', null)).toBeNull();
  });

  test('are shown as they are called', () => {
    expect(known.map(callOf)).toEqual(['@slow(field, limit)', '@shop()', '@busiest(by)']);
  });
});
