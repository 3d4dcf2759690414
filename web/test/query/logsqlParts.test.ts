import { expect, test } from 'vitest';
import { readParts } from '../../src/lib/query/logsqlParts';
import { lexemes } from '../../src/lib/query/logsqlScan';

/** The roles of a query, as `text/role` with blanks between. */
function check(query: string, expected: string): void {
  const shown = readParts(query).parts.filter(({ role }) => role !== 'operator' && role !== 'bracket');
  expect(shown.map(({ text, role }) => `${text}/${role}`).join(' ')).toBe(expected);
}

test.each([
  ['error', 'error/word'],
  ['a AND not level:=err', 'a/word AND/keyword not/keyword level/field err/word'],
  ['"my field":"x y" \'z\'', '"my field"/field "x y"/text \'z\'/text'],
  ['took:>1.5s status:500', 'took/field 1.5s/number status/field 500/number'],
  ['level:in(a, b) in (c)', 'level/field in/filter a/word b/word in/word c/word'],
  ['a # b | c\nd', 'a/word # b | c/comment d/word'],
  ['x | stats by (_time:5m, host) count() n', 'x/word stats/pipe by/keyword _time/field 5m/number host/field count/function n/field'],
  ['x | avg(took) if (took:>5) m', 'x/word avg/function took/field if/keyword took/field 5/number m/field'],
  ['x | stats by (limit) count()', 'x/word stats/pipe by/keyword limit/field count/function'],
  ['x | sort by (a desc) limit 5', 'x/word sort/pipe by/keyword a/field desc/keyword limit/keyword 5/number'],
  ['x | where count:>5 | nonsense y', 'x/word where/pipe count/field 5/number nonsense/word y/field'],
  ['u:in(p:a | fields u) e', 'u/field in/filter p/field a/word fields/pipe u/field e/word'],
  ['x | join by (u) (app:x | top 5 by (u)) inner', 'x/word join/pipe by/keyword u/field app/field x/word top/pipe 5/number by/keyword u/field inner/keyword'],
])('%s', check);

test('lexemes are the whole of any text, and parts never fail', () => {
  const texts = ['', '"open', "'a\\", '`', ')))', '((({', 'a:::=!~<>*', '|||', '#', 'ä€😀 # x\n|', '\\', 'in(|)', 'stats by (', '| stats by (((a) b) c) d |', '{a="b",c!~"d"}'];
  for (const text of texts) {
    expect(lexemes(text).map((lexeme) => lexeme.text).join('')).toBe(text);
    for (const part of readParts(text).parts) expect(text.slice(part.from, part.to)).toBe(part.text);
  }
});
