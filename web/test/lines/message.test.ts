import { describe, expect, test } from 'vitest';
import { ansiText, plainText } from '../../src/lib/base/ansi';
import { leadChars } from '../../src/lib/lines/lead';
import { linksIn, piecesOf } from '../../src/lib/lines/pieces';
import { searchedTerms } from '../../src/lib/query/terms';

describe('colours of terminals', () => {
  test.each([
    ['plain', 'plain', []],
    ['\x1b[31mred\x1b[0m plain', 'red plain', ['red ansi-red']],
    ['\x1b[1;33mW\x1b[22mx\x1b[m.', 'Wx.', ['W ansi-yellow ansi-bold', 'x ansi-yellow']],
    ['#033[32mok#033[0m #033 x', 'ok #033 x', ['ok ansi-green']],
    ['\x1b[38;5;196mr\x1b[39m\x1b[48;2;0;0;255mb', 'rb', ['r ansi-red', 'b ansi-on ansi-on-blue']],
    ['\x1b[97;41mx', 'x', ['x ansi-white ansi-on ansi-on-red']],
    ['\x1b]0;title\x07a\x1b[2Kb\x1b[1;1Hc\x1b(d', 'abc\x1b(d', []],
    ['\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\', 'link', []],
    ['cut \x1b[3', 'cut \x1b[3', []],
    ['\x1b[31"><img src=x>m', '\x1b[31"><img src=x>m', []],
  ])('%j', (message, text, runs) => {
    const found = ansiText(message);
    expect(found.text).toBe(text);
    expect(found.runs.map(({ from, to, classes }) => `${found.text.slice(from, to)} ${classes}`)).toEqual(runs);
  });

  test('only classes of the style sheet are chosen, whatever the codes', () => {
    for (let code = 0; code < 300; code++) {
      for (const { classes } of ansiText(`\x1b[${code};${code}mx\x1b[38;5;${code}my\x1b[48;2;${code};0;9mz`).runs) expect(classes).toMatch(/^ansi-[a-z]+( ansi-[a-z-]+)*$/);
    }
  });

  test('a long text of broken sequences is read quickly', () => {
    const message = '\x1b[1;'.repeat(20_000) + '\x1b]'.repeat(20_000);
    expect(plainText(message).length).toBeLessThanOrEqual(message.length);
  });
});

describe('links', () => {
  test.each([
    ['see https://a.example/x?y=1&z#f.', ['https://a.example/x?y=1&z#f']],
    ['(http://a.example/b_(c)), next', ['http://a.example/b_(c)']],
    ['"https://a.example/" <http://b.example>', ['https://a.example/', 'http://b.example']],
    ['javascript:alert(1) ftp://x file:///etc data:text/html,x', []],
    ['xhttp://a.example http:// https://?x', []],
    ['https://a.example/"onclick="x', ['https://a.example/']],
  ])('%s', (text, links) => expect(linksIn(text).map(({ from, to }) => text.slice(from, to))).toEqual(links));
});

test('pieces make up the text, each with what it is', () => {
  const pieces = piecesOf('\x1b[31mfail\x1b[0m of https://a.example/fail 7', '_msg', searchedTerms('fail'), 0, [{ field: 'n', from: 31, to: 32 }]);
  expect(pieces.map(({ text }) => text).join('')).toBe('fail of https://a.example/fail 7');
  expect(pieces.find(({ text }) => text === 'fail')).toMatchObject({ classes: 'ansi-red', marked: true, href: null });
  expect(pieces.filter(({ href }) => href !== null).map(({ text, marked }) => [text, marked])).toEqual([['https://a.example/', false], ['fail', true]]);
  expect(pieces.at(-1)).toMatchObject({ text: '7', field: 'n' });
});

test('a cut beginning is not shown', () => {
  expect(piecesOf('12:00 a fail', '_msg', searchedTerms('fail'), 6).map(({ text }) => text)).toEqual(['a ', 'fail']);
});

describe('what the beginning of a message repeats', () => {
  const time = Date.parse('2026-11-26T03:58:25.718Z');
  test.each([
    ['2026-11-26T03:58:25.718Z done', 'done'],
    ['2026-11-26 04:58:25,718 done', 'done'],
    ['[2026-11-26 03:58:24] done', 'done'],
    ['2026/11/26 03:58:25 [notice] done', '[notice] done'],
    ['26/Nov/2026:04:58:25 +0100 done', 'done'],
    ['Nov 26 03:58:25 web1 nginx[17]: done', 'done'],
    ['2026-11-26 03:58:25.631 UTC [1] done', '[1] done'],
    ['nginx: done', 'done'],
    // Another time is not a repetition, nor is a host without a time before it.
    ['2026-11-26T02:58:25Z done', '2026-11-26T02:58:25Z done'],
    ['2026-11-25T03:58:25 done', '2026-11-25T03:58:25 done'],
    ['2026-11-26 03:51:25 done', '2026-11-26 03:51:25 done'],
    ['web1 is down', 'web1 is down'],
    ['nginx is down', 'nginx is down'],
    ['2026-99-99T99:99:99Z done', '2026-99-99T99:99:99Z done'],
    // Nothing would be left.
    ['2026-11-26T03:58:25.718Z ', '2026-11-26T03:58:25.718Z '],
  ])('%s', (message, shown) => expect(message.slice(leadChars(message, time, 'web1', 'nginx'))).toBe(shown));
  test('a line without a time', () => expect(leadChars('2026-11-26T03:58:25Z x', NaN, '', '')).toBe(0));
});
