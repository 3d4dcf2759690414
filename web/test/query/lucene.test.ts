import { describe, expect, test } from 'vitest';
import { askedAsLucene, isLucene, luceneParts, translated } from '../../src/lib/query/lucene';

describe('Lucene in the query box', () => {
  test('what is certainly Lucene', () => {
    for (const text of [
      'level:error AND host:web*',
      'level:error OR (host:web1 AND took:>5)',
      '(level:error OR level:warn) AND checkout',
      '_exists_:user',
      'error -_exists_:user',
      'took:[1 TO 5]',
      'took:{1 TO *]',
      'timestamp:[2026-01-01 TO 2026-01-02]',
      'host:/web-[0-9]+/',
      'error && timeout',
      'level:error || level:warn',
      '"a b" AND level:error',
      'level:error AND(host:web1)',
    ]) {
      expect(isLucene(text), text).toBe(true);
    }
  });

  test('what is LogsQL, or may be', () => {
    for (const text of [
      '',
      '*',
      'error',
      'error AND timeout',
      'level:error',
      'level:error host:web*',
      'level:error and host:web1',
      'NOT app_name:="nginx"',
      'hostname:="web1" AND level:="error"',
      'level:error AND _time:5m',
      'level:in(error, warn) AND host:web1',
      'level:i(error) OR host:web1',
      'level:error OR took:range[1, 5]',
      '{hostname="web1"} AND level:error',
      'level:error AND host:web1 | stats count()',
      'path:"/a/b/" error',
      '"_exists_:user"',
      '"a && b"',
      'error # a && b',
      'url:/a/b/c',
      'path:/ a/',
    ]) {
      expect(isLucene(text), text).toBe(false);
    }
  });

  test('a query that cannot be parsed may be Lucene, unless a pipe is wrong', () => {
    expect(askedAsLucene('took:[1 2', 5)).toBe('took:[1 2');
    expect(askedAsLucene('level:error +b^2 (', 18)).toBe('level:error +b^2 (');
    expect(askedAsLucene('level:error | frobnicate', 14)).toBeNull();
    expect(askedAsLucene('level:error', null)).toBeNull();
    expect(askedAsLucene('error (', 7)).toBeNull();
    expect(askedAsLucene('', 0)).toBeNull();
    expect(askedAsLucene('took:[1 TO 5] | stats count()', 5)).toBe('took:[1 TO 5]');
    expect(askedAsLucene('_exists_:user', null)).toBe('_exists_:user');
  });

  test('pipes stay', () => {
    expect(luceneParts('a:1 || b:2')).toEqual({ text: 'a:1 || b:2', pipes: '' });
    expect(translated('took:[1 TO 5] | stats count()', 'took:range[1, 5]')).toBe('took:range[1, 5] | stats count()');
    expect(translated('a:1 || b:2', 'a:1 or b:2')).toBe('a:1 or b:2');
    expect(translated('error  404', 'error 404')).toBeNull();
  });
});
