import { expect, it } from 'vitest';
import { marksOfAnnotations } from '../../src/lib/events/annotations';

it('marks are of lines with a time and a text', () => {
  const rows = [{ _time: '2026-11-02T14:02:00Z', annotation: 'deploy' }, { _time: 'x', annotation: 'y' }, { _time: '2026-11-02T14:02:00Z' }];
  expect(marksOfAnnotations(rows as Record<string, string>[])).toEqual([{ ms: Date.parse('2026-11-02T14:02:00Z'), text: 'deploy', tone: 'note' }]);
});
