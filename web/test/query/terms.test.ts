import { expect, test } from 'vitest';
import { marksIn, searchedTerms } from '../../src/lib/query/terms';

/** The marked parts of a text, in brackets. */
function marked(query: string, text: string, field = '_msg'): string {
  let shown = '';
  let done = 0;
  for (const [from, to] of marksIn(text, field, searchedTerms(query))) {
    shown += `${text.slice(done, from)}[${text.slice(from, to)}]`;
    done = to;
  }
  return shown + text.slice(done);
}

test.each([
  ['error', 'an error, no errors, no ERROR', 'an [error], no errors, no ERROR'],
  ['"login fail"', 'ssh: login fail: x', 'ssh: [login fail]: x'],
  ['err*', 'errors and terror', '[err]ors and terror'],
  ['*rro*', 'errors and terror', 'e[rro]rs and te[rro]r'],
  ['a or (b c)', 'a b c d', '[a] [b] [c] d'],
  ['a NOT b !c -d', 'a b c d', '[a] b c d'],
  ['NOT (a b) c', 'a b c', 'a b [c]'],
  ['i(Error)', 'ERROR error', '[ERROR] [error]'],
  ['~"p=[0-9]+"', 'p=17 q=3', '[p=17] q=3'],
  ['~"(?i)WARN"', 'a Warning', 'a [Warn]ing'],
  ['contains_any(x, "y z")', 'x and y z', '[x] and [y z]'],
  ['="whole"', 'whole', '[whole]'],
  ['="whole"', 'whole or more', 'whole or more'],
  ['_msg:(a or b)', 'a b', '[a] [b]'],
  ['*:error', 'error', '[error]'],
  ['a | stats by (b) count()', 'a b count', '[a] b count'],
  ['path:="/x"', 'GET /x', 'GET /x'],
  ['größe', 'die größe, größen', 'die [größe], größen'],
  ['"1.2.3.4"', 'from 1.2.3.4 or 11.2.3.4', 'from [1.2.3.4] or 11.2.3.4'],
  ['"/var"', '/var/log and x/var', '[/var]/log and x[/var]'],
  ['ab "abc', 'ab abc', '[ab] abc'],
])('%s in %s', (query, text, shown) => expect(marked(query, text)).toBe(shown));

test.each([
  ['path:="/x" status:in(200, 404)', 'path', '/x', '[/x]'],
  ['status:in(200, 404)', 'status', '404', '[404]'],
  ['status:in(200, 404)', 'status', '4040', '4040'],
  ['"a field":="v w"', 'a field', 'v w', '[v w]'],
  ['k8s.*:web', 'k8s.pod', 'web-1', '[web]-1'],
  ['status:>=500', 'status', '503', '503'],
  ['user:al*', 'user', 'alice', '[al]ice'],
])('%s in the field %s', (query, field, text, shown) => expect(marked(query, text, field)).toBe(shown));

test.each(['~"(a+)+b"', '~"a*a*b"', '~"("', '""', '(', ':', 'a:', '*', '~'])('%s marks nothing, and quickly', (query) => {
  expect(marked(query, 'a'.repeat(2000))).toBe('a'.repeat(2000));
});

test('a long text is marked at its beginning alone', () => {
  const long = `error ${'x'.repeat(100_000)} error`;
  expect(marksIn(long, 'body', searchedTerms('body:error'))).toEqual([[0, 5]]);
  // From each of its characters this would look at all that follow.
  expect(marksIn('x'.repeat(1_000_000), 'body', searchedTerms('body:~".*y"'))).toEqual([]);
});

test('a query of very many terms marks only the first ones', () => {
  const query = Array.from({ length: 1000 }, (_, i) => `w${i}`).join(' or ');
  expect(searchedTerms(query).length).toBeLessThan(100);
});
