// What pipes, functions and filters do: for completion and for help on a word. Pipes and functions
// of `stats` are those that the server documents (see dev/help.ts); filters and functions of series
// are written here, and compared with its sources by a test.

import generated from './logsqlHelp.json';

export interface HelpEntry {
  kind: 'pipe' | 'function' | 'filter';
  name: string;
  aliases: readonly string[];
  /** Optional parts are in brackets. */
  syntax: string;
  /** A sentence without a full stop. */
  summary: string;
  /** As it stands behind a `|`, behind `stats`, or as a filter. */
  example: string;
}

type Written = [name: string, syntax: string, summary: string, example: string];

const FILTERS: readonly Written[] = [
  ['contains_all', 'contains_all(<text>, …)', 'selects values that contain all of these words and phrases', 'contains_all(timeout, "db1")'],
  ['contains_any', 'contains_any(<text>, …)', 'selects values that contain at least one of these words and phrases', 'contains_any(timeout, refused)'],
  ['contains_common_case', 'contains_common_case(<text>, …)', 'selects values that contain the word or phrase as written, in capitals only, or with any of its capitals in lower case', 'contains_common_case(VictoriaMetrics)'],
  ['equals_common_case', 'equals_common_case(<text>, …)', 'selects values that are the text as written, in capitals only, or with any of its capitals in lower case', 'app_name:equals_common_case(Kernel)'],
  ['eq_field', '<field>:eq_field(<field>)', 'selects lines in which both fields have the same value', 'user_id:eq_field(customer_id)'],
  ['lt_field', '<field>:lt_field(<field>)', 'selects lines in which the first field is less than the second', 'took:lt_field(limit)'],
  ['le_field', '<field>:le_field(<field>)', 'selects lines in which the first field is less than or equal to the second', 'took:le_field(limit)'],
  ['gt_field', '<field>:gt_field(<field>)', 'selects lines in which the first field is greater than the second', 'took:gt_field(limit)'],
  ['ge_field', '<field>:ge_field(<field>)', 'selects lines in which the first field is greater than or equal to the second', 'took:ge_field(limit)'],
  ['exact', 'exact(<text>)', 'selects values that are exactly this text, as `=` does', 'exact(fatal)'],
  ['i', 'i(<text>)', 'selects values that contain the word or phrase in any case; with `*` behind it, words that begin with it', 'i(err*)'],
  ['in', '<field>:in(<value>, …)', 'selects values that are in the list, or among the values that a query in the parentheses gives', 'level:in(error, warning)'],
  ['ipv4_range', '<field>:ipv4_range(<address>[, <address>])', 'selects values that are an IPv4 address in the range', 'ip:ipv4_range(10.0.0.0/8)'],
  ['ipv6_range', '<field>:ipv6_range(<address>[, <address>])', 'selects values that are an IPv6 address in the range', 'ip:ipv6_range(fd00::/8)'],
  ['json_array_contains_any', '<field>:json_array_contains_any(<text>, …)', 'selects values that are a JSON array with at least one of these items', 'tags:json_array_contains_any(prod, dev)'],
  ['len_range', '<field>:len_range(<least>, <most>)', 'selects values with this number of characters', 'path:len_range(100, inf)'],
  ['pattern_match', 'pattern_match("<text>")', 'selects values that contain the text, with numbers, times or words in place of placeholders such as <N>, <IP4>, <TIME>, <W> and <*>', 'pattern_match("user_id=<N>, ip=<IP4>")'],
  ['pattern_match_full', 'pattern_match_full("<text>")', 'selects values that are the text with placeholders as a whole', 'pattern_match_full("Connection from <*> closed")'],
  ['pattern_match_prefix', 'pattern_match_prefix("<text>")', 'selects values that begin with the text with placeholders', 'pattern_match_prefix("user_id=<N>")'],
  ['pattern_match_suffix', 'pattern_match_suffix("<text>")', 'selects values that end with the text with placeholders', 'pattern_match_suffix("took <N> ms")'],
  ['range', '<field>:range(<from>, <to>)', 'selects numbers and times in the range; `[` and `]` include an end, `(` and `)` exclude it', 'size:range(1, 10KB]'],
  ['re', 're("<expression>")', 'selects values that the regular expression matches anywhere, as `~` does', 're("(?i)err|warn")'],
  ['seq', 'seq(<text>, …)', 'selects values that contain these words and phrases in this order', 'seq(error, "open file")'],
  ['string_range', '<field>:string_range(<from>, <to>)', 'selects texts from the first to before the second, byte by byte', 'user:string_range(A, C)'],
  ['value_type', '<field>:value_type(<type>)', 'selects values that could be stored as this type', 'size:value_type(uint64)'],
];

const SERIES: readonly Written[] = [
  ['derivative', 'derivative(<field>)', 'computes the change since the previous number, per second; in running_stats', 'running_stats by (host) derivative(n) d'],
  ['difference', 'difference(<field>[, <span>])', 'computes the number minus the number one span before; in running_stats', 'running_stats by (host) difference(n, 1d) d'],
  ['moving_avg', 'moving_avg(<field>, <span>)', 'computes the average of the span that ends with the row; in running_stats', 'running_stats by (host) moving_avg(n, 1h) m'],
  ['moving_max', 'moving_max(<field>, <span>)', 'computes the greatest number of the span that ends with the row; in running_stats', 'running_stats by (host) moving_max(n, 1h) m'],
  ['moving_min', 'moving_min(<field>, <span>)', 'computes the least number of the span that ends with the row; in running_stats', 'running_stats by (host) moving_min(n, 1h) m'],
  ['moving_sum', 'moving_sum(<field>, <span>)', 'computes the sum of the span that ends with the row; in running_stats', 'running_stats by (host) moving_sum(n, 1h) m'],
  ['shift', 'shift(<field>[, <span>])', 'takes the number of the row one span before; in running_stats', 'running_stats by (host) shift(n, 1d) before'],
  ['share', 'share(<field>)', 'computes the percentage of the sum of the group; in total_stats', 'total_stats by (_time) share(n) p'],
];

const written = (kind: HelpEntry['kind'], list: readonly Written[]): HelpEntry[] =>
  list.map(([name, syntax, summary, example]) => ({ kind, name, aliases: [], syntax, summary, example }));

export const PIPES: readonly HelpEntry[] = generated.pipes.map((entry) => ({ kind: 'pipe', ...entry }));
export const FUNCTIONS: readonly HelpEntry[] = generated.functions.map((entry) => ({ kind: 'function', ...entry }));
export const SERIES_FUNCTIONS = written('function', SERIES);
export const FILTER_FUNCTIONS = written('filter', FILTERS);

function byName(...lists: (readonly HelpEntry[])[]): Map<string, HelpEntry> {
  return new Map(lists.flat().flatMap((entry) => [entry.name, ...entry.aliases].map((name) => [name, entry] as const)));
}

const PIPE_NAMES = byName(PIPES);
const FUNCTION_NAMES = byName(SERIES_FUNCTIONS, FUNCTIONS);
const FILTER_NAMES = byName(FILTER_FUNCTIONS);

/** The help about a name in one of its roles; names are known in any case. */
export function helpOn(kind: HelpEntry['kind'], name: string): HelpEntry | null {
  const names = kind === 'pipe' ? PIPE_NAMES : kind === 'function' ? FUNCTION_NAMES : FILTER_NAMES;
  return names.get(name.toLowerCase()) ?? null;
}

/** The words of a pipe's syntax, such as `by`, `limit` and `desc`; without its name. */
export function keywordsOf(entry: HelpEntry): readonly string[] {
  const text = entry.syntax.replace(/"[^"]*"/g, '').replace(/<[^>]*>/g, '');
  const words = text.match(/[a-z_]+/g) ?? [];
  return [...new Set(words)].filter((word) => word !== entry.name && !entry.aliases.includes(word));
}
