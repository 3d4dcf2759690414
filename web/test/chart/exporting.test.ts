import { expect, test } from 'vitest';
import { csvOf, fileNameOf } from '../../src/lib/chart/exporting';

test('rows as CSV, without formulas', () => {
  expect(csvOf([{ a: '1', b: 'x, "y"' }, { b: '=1+1', c: '-3' }, { a: '@x', b: 'two\nlines', c: '-x' }])).toBe('a,b,c\r\n1,"x, ""y""",\r\n,\'=1+1,-3\r\n\'@x,"two\nlines",\'-x\r\n');
  expect(csvOf([])).toBe('\r\n');
});

test.each([['Errors of web/1', 'errors-of-web-1.png'], ['../..', 'panel.png'], ['', 'panel.png'], ['Über', 'u-ber.png']])('%s is the file %s', (title, file) => expect(fileNameOf(title, 'png')).toBe(file));
