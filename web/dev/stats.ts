// The part of `stats` that working on charts needs. The server has the real one.

import { statsOf, timeStepMs, type StatsFunction } from '../src/lib/query/stats.ts';
import type { Stored } from './corpus.ts';
import { compile } from './match.ts';

/** The rows of a query with `stats`; null if it has none that this knows. */
export function statsRows(query: string, lines: readonly Stored[], spanS: number): Record<string, string>[] | null {
  const pipe = statsOf(query);
  if (pipe?.pipe !== 'stats') return null;
  const stepMs = timeStepMs(pipe);
  const groups = new Map<string, Stored[]>();
  for (const stored of lines) {
    const key = pipe.keys.map(({ name, step }) => {
      if (name === '_time') return stepMs === null ? (stored.line['_time'] ?? '') : new Date(Math.floor(stored.ms / stepMs) * stepMs).toISOString();
      const value = stored.line[name] ?? '';
      return step === null || value === '' ? value : String(Math.floor(Number(value) / Number(step)) * Number(step));
    });
    const text = JSON.stringify(key);
    const group = groups.get(text);
    if (group) group.push(stored);
    else groups.set(text, [stored]);
  }
  if (pipe.keys.length === 0 && groups.size === 0) groups.set('[]', []);
  const seconds = stepMs === null ? spanS : stepMs / 1000;
  return [...groups].sort().map(([key, group]) => {
    const values = JSON.parse(key) as string[];
    const row: Record<string, string> = {};
    pipe.keys.forEach(({ name }, at) => {
      if (values[at] !== '') row[name] = values[at] as string;
    });
    for (const one of pipe.functions) row[one.name] = compute(one, pipe.functionsText, group, seconds);
    return row;
  });
}

function compute({ name, fn, field, filter }: StatsFunction, text: string, all: readonly Stored[], seconds: number): string {
  const test = filter === null ? null : compile(filter);
  const lines = test ? all.filter(({ line }) => test(line)) : all;
  const texts = lines.map(({ line }) => line[field ?? ''] ?? '').filter((value) => value !== '');
  const numbers = texts.map(Number).filter((value) => !Number.isNaN(value)).sort((a, b) => a - b);
  const sum = numbers.reduce((total, value) => total + value, 0);
  const at = (share: number): string => String(numbers[Math.min(numbers.length - 1, Math.floor(share * numbers.length))] ?? 'NaN');
  switch (fn) {
    case 'count':
      return String(field === null ? lines.length : texts.length);
    case 'count_uniq':
      return String(new Set(texts).size);
    case 'rate':
      return String(lines.length / seconds);
    case 'sum':
      return String(sum);
    case 'avg':
      return numbers.length === 0 ? 'NaN' : String(sum / numbers.length);
    case 'min':
      return at(0);
    case 'max':
      return at(1);
    case 'median':
      return at(0.5);
    case 'quantile':
      return at(Number(new RegExp(`quantile\\(\\s*([\\d.]+)[^)]*\\)\\s*(?:as\\s+)?${name}\\b`).exec(text)?.[1] ?? 0.5));
    case 'histogram': {
      const ranges = new Map<number, number>();
      for (const value of numbers) if (value > 0) ranges.set(Math.floor(Math.log10(value) * 18), (ranges.get(Math.floor(Math.log10(value) * 18)) ?? 0) + 1);
      const end = (place: number): string => (10 ** (place / 18)).toExponential(3).replace(/e([+-])(\d)$/, 'e$10$2');
      return JSON.stringify([...ranges].map(([place, hits]) => ({ vmrange: `${end(place)}...${end(place + 1)}`, hits })));
    }
    default:
      return '';
  }
}
