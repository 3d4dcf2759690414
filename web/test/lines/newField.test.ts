import { describe, expect, test } from 'vitest';
import { extracted, extractPipe, isFieldName, proposedName, proposedPattern, ruleFor, tried, withField } from '../../src/lib/lines/newField';

/** The pattern for the part in `[[ ]]`, as `before<name>behind`. */
function proposed(marked: string): string | null {
  const from = marked.indexOf('[[');
  const to = marked.indexOf(']]') - 2;
  const pattern = proposedPattern(marked.replace('[[', '').replace(']]', ''), from, to);
  return pattern && `${pattern.before}<${proposedName(pattern)}>${pattern.behind}`;
}

describe('a pattern is proposed from the text around the marked part', () => {
  test.each([
    ['order [[4711]] of ann: 12 EUR', 'order <order> '],
    ['order 4711 of [[ann]]: 12 EUR', 'of <of>:'],
    ['user=[[alice]] from 10.0.0.7', 'user=<user> '],
    ['login from [[10.0.0.7]]', 'from <from>'],
    ['took "[[12 ms]]" for /cart', 'took "<took>"'],
    ['pool(db1) has [[17]], wants 3', 'has <has>,'],
    ['[[GET]] /cart', '<value> '],
    // The word alone comes twice, so more of the text before is taken.
    ['read in 3 s, sent in [[5]] s', 'sent in <in> '],
  ])('%s', (marked, pattern) => expect(proposed(marked)).toBe(pattern));

  test('nothing, and a part over several lines, have none', () => {
    expect(proposedPattern('abc', 1, 1)).toBeNull();
    expect(proposedPattern('a\nb', 0, 3)).toBeNull();
  });

  test('whatever is proposed finds the marked part', () => {
    const message = '2026-11-29 shop[17]: order 4711 <of> "ann" & co: 12.5 EUR (retry 2/3) 12.5';
    for (let from = 0; from < message.length; from++) {
      for (let to = from + 1; to <= message.length; to++) {
        const pattern = proposedPattern(message, from, to);
        if (pattern) expect(extracted(message, pattern)).toBe(message.slice(from, to));
      }
    }
  });
});

test('the pipe, the query and the rule', () => {
  const pattern = { before: 'order <', behind: '" & ' };
  const pipe = extractPipe('order_id', pattern);
  expect(pipe).toBe('extract "order &lt;<plain:order_id>\\" &amp; " from _msg keep_original_fields');
  expect(withField('', pipe)).toBe(`* | ${pipe}`);
  expect(withField('app:=shop | limit 5', pipe)).toBe(`app:=shop | limit 5 | ${pipe}`);
  expect(ruleFor('order_id', { before: 'order ', behind: '' }, 'app_name', 'shop')).toBe(
    '[[rules]]\nname = "field order_id"\nfilter = "app_name:=\\"shop\\" *\\"order\\"*"\npipes = "extract \\"order <plain:order_id>\\" from _msg keep_original_fields"\n',
  );
});

test('it is tried on the lines that are there', () => {
  const pattern = { before: 'order ', behind: ' ' };
  expect(tried(['order 1 x', 'order 2 x', 'order 2 y', 'no', 'order 3'], pattern)).toEqual({ found: 3, lines: 5, values: ['1', '2'] });
});

test.each([['a', true], ['order_id', true], ['a.b', true], ['', false], ['1a', false], ['a b', false], ['a>', false]])('%j is a name: %s', (name, is) => expect(isFieldName(name)).toBe(is));
