import { describe, expect, it } from 'vitest';
import type { Row } from '../../src/lib/base/jsonl';
import { cardsOf, courseQuery, detailsOf, earlierQuery, hostsOf, hostsQuery, sortCards, trendOf } from '../../src/lib/lines/patternCards';

const T = Date.parse('2026-11-02T10:00:00Z');
const SPAN = { startMs: T, endMs: T + 3_600_000 };
const row = (pattern: string, hits: number): Row => ({ pattern, hits: String(hits), first: '2026-11-02T10:00:00Z', last: '2026-11-02T10:59:00Z', example: pattern });
const NOW = [row('request <*> done', 900), row('login of <*> failed', 80), row('disk <*> full', 20)];
const BEFORE = [row('request <*> done', 880), row('login of <*> failed', 10), row('backup of <*> done', 12), row('once', 1)];

describe('cards of patterns', () => {
  it('say the share, what is new, gone and rising', () => {
    const cards = cardsOf(NOW, BEFORE);
    expect(cards.map(({ pattern, turn, before }) => [pattern, turn, before])).toEqual([
      ['request <*> done', null, 880], ['login of <*> failed', null, 10], ['disk <*> full', 'new', 0], ['backup of <*> done', 'gone', 12],
    ]);
    expect(cards[0]?.share).toBe(0.9);
    expect(cards.map(trendOf)).toEqual([1, 8, Infinity, 0]);
    expect(sortCards(cards, true).map(({ pattern }) => pattern)).toEqual(['disk <*> full', 'backup of <*> done', 'login of <*> failed', 'request <*> done']);
    expect(sortCards(cards, false)).toEqual(cards);
  });

  it('know no share of a list that was cut, unless they are told how many lines there are', () => {
    const many = Array.from({ length: 200 }, (_, n) => row(`p${n}`, 2));
    expect(cardsOf(many, null)[0]?.share).toBeNull();
    expect(cardsOf(many, null, 1000)[0]?.share).toBe(0.002);
    expect(cardsOf(many.slice(1), null, 1000)[0]?.share).toBe(1 / 199);
  });

  it('say nothing of a time before that is not known, or of which there are no lines', () => {
    for (const earlier of [null, [], Array.from({ length: 200 }, (_, n) => row(`p${n}`, 9))]) {
      expect(cardsOf(NOW, earlier).filter(({ turn }) => turn === 'new')).toEqual([]);
    }
    expect(trendOf(cardsOf(NOW, null)[0]!)).toBe(1);
  });

  it('ask for the course, the hosts and the time before in one pass each', () => {
    const patterns = ['login of <*> failed', '<*> failed'];
    // The more special pattern is marked last, since it has the lines that both fit.
    expect(courseQuery('app:=auth', '_msg', patterns, SPAN)).toBe(
      'app:=auth | format if (pattern_match_full("<*> failed")) "1" as __pattern | format if (pattern_match_full("login of <*> failed")) "0" as __pattern | filter __pattern:* | stats by (__pattern, _time:120s, _level) count() n',
    );
    expect(hostsQuery('*', 'error', ['a'], 'host')).toContain('format if (error:pattern_match_full("a")) "0" as __pattern | filter __pattern:* | stats by (__pattern) count_uniq(host) hosts');
    expect(earlierQuery('*', 'error', SPAN)).toEqual({ query: '* | patterns 200 of error', span: { startMs: T - 3_600_000, endMs: T } });
  });

  it('read the answers', () => {
    const course = [
      { __pattern: '1', _time: '2026-11-02T10:00:00Z', _level: 'error', n: '3' },
      { __pattern: '1', _time: '2026-11-02T10:58:00Z', _level: 'info', n: '2' },
    ];
    const [none, one] = detailsOf(course, 2, SPAN);
    expect(none).toMatchObject({ level: null });
    expect(one?.level).toBe('error');
    expect(one?.course).toHaveLength(30);
    expect([one?.course[0], one?.course[29]]).toEqual([3, 2]);
    expect(hostsOf([{ __pattern: '0', hosts: '1', host: 'web1' }], ['a'])).toEqual(new Map([['a', { count: 1, one: 'web1' }]]));
  });
});
