import { describe, expect, test } from 'vitest';
import { piecesOf } from '../../src/lib/lines/pieces';
import { foldTrace, shownValue, unseenIn, visibleText } from '../../src/lib/lines/readable';

test.each([
  ['duration_ms', '905.8137', '906 ms'],
  ['duration_ms', '12.5', '12.5 ms'],
  ['took_us', '1234567', '1.23 s'],
  ['bytes', '153600', '150 KiB'],
  ['cpu_percent', '93.33333', '93.3%'],
  ['hit_ratio', '0.25', '25%'],
  ['score', '0.3333333333', '0.333'],
  ['score', '123456.123456', '123456'],
  ['order_id', '8812345678901', '8812345678901'],
  ['port', '9514', '9514'],
  ['retries', '3', '3'],
  ['version', '1.2.3', '1.2.3'],
  ['card', '12345678901234567890', '12345678901234567890'],
  ['text', 'a\nb', 'a\nb'],
])('%s=%s is shown as %s', (field, value, shown) => expect(shownValue(field, value)).toBe(shown));

describe('characters that cannot be seen', () => {
  test.each([
    ['plain, äöü, 日本語, tab\t and line\n', []],
    ['user\u202etxt.exe', ['U+202E']],
    ['ad\u200bmin', ['U+200B']],
    ['\ufeff{"a":1}\u0000', ['U+FEFF', 'U+0000']],
    ['a\u{e0041}b', ['U+E0041']],
    // Parts of an emoji, and of a Persian word.
    ['👩\u200d💻', []],
    ['می\u200cخواهم', []],
    ['a\u200db', ['U+200D']],
  ])('%j', (text, codes) => expect(unseenIn(text).map(({ code }) => code)).toEqual(codes));

  test('are shown by their code, and never change the order of the text', () => {
    expect(visibleText('user\u202etxt\u200b')).toBe('user‹U+202E›txt‹U+200B›');
    const pieces = piecesOf('user\u202etxt', '_msg', []);
    expect(pieces.map(({ text, unseen }) => unseen ?? text)).toEqual(['user', 'U+202E: changes the direction of the text', 'txt']);
    expect(pieces.map(({ text }) => text).join('')).toBe('userU+202Etxt');
  });

  test('many of them are marked up to a limit', () => expect(unseenIn('\u200b'.repeat(10_000))).toHaveLength(200));
});

describe('a stack trace is folded to the first frame of one’s own', () => {
  test.each([
    [
      'java',
      'java.lang.IllegalStateException: no stock\n\tat java.base/java.util.Optional.get(Optional.java:143)\n\tat com.shop.Cart.pay(Cart.java:88)\n\tat org.springframework.web.Filter.run(Filter.java:9)\n\t... 12 more',
      'java.lang.IllegalStateException: no stock ⤷ at com.shop.Cart.pay(Cart.java:88) (+2 frames)',
    ],
    [
      'python',
      'failed\nTraceback (most recent call last):\n  File "/srv/shop/app.py", line 7, in pay\n    charge()\n  File "/usr/lib/python3.12/site-packages/x.py", line 3, in y\n    z\nValueError: bad card',
      'failed ValueError: bad card ⤷ File "/srv/shop/app.py", line 7, in pay (+1 frame)',
    ],
    ['node', 'TypeError: x is undefined\n    at Object.run (node:internal/x:1:2)\n    at pay (/srv/shop/pay.js:10:3)', 'TypeError: x is undefined ⤷ at pay (/srv/shop/pay.js:10:3) (+1 frame)'],
    ['go', 'panic: nil map\n\ngoroutine 1 [running]:\nmain.pay()\n\t/usr/local/go/src/runtime/map.go:1 +0x2\nmain.main()\n\t/srv/shop/main.go:12 +0x1d', 'panic: nil map ⤷ /srv/shop/main.go:12 +0x1d (+1 frame)'],
    ['only foreign ones', 'x\n\tat java.util.A.b(A.java:1)\n\tat java.util.C.d(C.java:2)', 'x ⤷ at java.util.A.b(A.java:1) (+1 frame)'],
  ])('%s', (_, text, folded) => expect(foldTrace(text)).toBe(folded));

  test.each(['one line', 'two\nlines', 'met\n  at the door\nand left', ''])('%j is none', (text) => expect(foldTrace(text)).toBeNull());
});
