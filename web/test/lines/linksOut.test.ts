import { expect, test } from 'vitest';
import { containsPattern, LINKS_MAX, LINKS_OF_LINE_MAX, linksOf, readLinks, templateProblem, writeLinks } from '../../src/lib/lines/linksOut';

const jaeger = { name: 'Trace', url: 'https://jaeger.example/trace/{trace_id}?service={service.name}', pattern: '' };
const full = { name: 'Full disk', url: 'https://wiki.example/full-disk', pattern: 'no space*left' };

test('a link is made of the fields of a line that has all of them', () => {
  expect(linksOf({ _msg: 'x', trace_id: 'a/b?c#d', 'service.name': 'shop é' }, [jaeger])).toEqual([
    { name: 'Trace', href: 'https://jaeger.example/trace/a%2Fb%3Fc%23d?service=shop%20%C3%A9', isRunbook: false },
  ]);
  expect(linksOf({ _msg: 'x', trace_id: 'a' }, [jaeger])).toEqual([]);
  expect(linksOf({ _msg: 'x', trace_id: '\ud800', 'service.name': 's' }, [jaeger])).toHaveLength(1);
});

test('a value leads to no other folder than the template', () => {
  const user = { name: 'User', url: 'https://wiki.example/users/{user}/notes?of={user}', pattern: '' };
  for (const value of ['.', '..', '%2e%2e']) {
    const links = linksOf({ _msg: 'x', user: value }, [user, { ...user, name: 'Last', url: 'https://wiki.example/users/{user}' }]);
    for (const { href } of links) expect(new URL(href).pathname.startsWith('/users/')).toBe(true);
    expect(links).toHaveLength(value.startsWith('%') ? 2 : 0);
  }
  expect(linksOf({ _msg: 'x', user: '..' }, [{ ...user, url: 'https://wiki.example/?of={user}' }])).toHaveLength(1);
  expect(linksOf({ _msg: 'x', user: 'a..b' }, [user])).toHaveLength(1);
  expect(linksOf({ _msg: 'x', a: '.', b: '.' }, [{ ...user, url: 'https://wiki.example/x/{a}{b}/y' }])).toEqual([]);
});

test('a runbook is for lines with its pattern, and comes first', () => {
  const row = { _msg: 'ERROR: No space is left on device', trace_id: 'a', 'service.name': 's' };
  expect(linksOf(row, [jaeger, full]).map(({ name }) => name)).toEqual(['Full disk', 'Trace']);
  expect(linksOf({ ...row, _msg: 'left, no space' }, [full])).toEqual([]);
  expect(linksOf(row, Array.from({ length: 20 }, (_, at) => ({ ...full, name: String(at) })))).toHaveLength(LINKS_OF_LINE_MAX);
});

test('a pattern is compared in linear time', () => {
  const message = 'a'.repeat(50_000);
  expect(containsPattern(message, `${'*a'.repeat(900)}*b`)).toBe(false);
  expect(containsPattern(message, '*a*a*')).toBe(true);
});

test.each([
  ['javascript:alert(1)', false],
  ['https://{host}/x', false],
  ['https://a.example{x}/', false],
  ['https://user@a.example/{x}', false],
  ['ftp://a.example/', false],
  ['https://a.example', true],
  ['http://127.0.0.1:16686/trace/{trace_id}', true],
  ['https://a.example/?q={x}#{y}', true],
])('%s may be a template: %s', (url, isOne) => expect(templateProblem({ name: 'x', url, pattern: '' }) === null).toBe(isOne));

test('a document is read back, without what is no template', () => {
  expect(readLinks(JSON.parse(writeLinks({ version: 3, links: [jaeger, full] })))).toEqual({ version: 3, links: [jaeger, full] });
  expect(readLinks({ version: 1, links: [{ name: 'a', url: 'https://a.example' }, { name: 'b', url: 'javascript:1' }, null, 7] }).links.map(({ name }) => name)).toEqual(['a']);
  expect(readLinks({ links: Array.from({ length: 200 }, () => full) }).links).toHaveLength(LINKS_MAX);
  expect(readLinks(null)).toEqual({ version: 0, links: [] });
});
