"""The shapes of queries that bench-peers.py measures: what people type, with words of each mix in place of `$names`.

A shape has parts in the words of the other peers where they can answer the same. `NONCE` in a query stands for a word that no line
has, another one in each run, so that no cache of answers helps. peers_words.py chooses what the names stand for.

Standard library only.
"""

import dataclasses
import string

# How answers are compared: all fields of all rows in any order; these fields only; the number of rows; numbers that may differ a
# little, because a peer estimates them; not at all, because a documented difference lies in each answer.
ALL, COUNT, NEAR, ANY = "all", "count", "near", "any"


@dataclasses.dataclass
class Query:
    """A query in each peer's words."""

    name: str
    # ALL, COUNT, NEAR, ANY, or the names of fields, with spaces between.
    compare: str
    logsql: str
    # Arguments of ripgrep, and those that count exactly what LogsQL counts where they differ.
    rg: list = None
    rg_exact: list = None
    # What DuckDB is asked; its table is `lines`.
    sql: str = ""
    # `limit` of the HTTP API.
    limit: int = 0
    # VictoriaLogs has no such pipe.
    own: bool = False


C = "| stats count() n"
NOT = '!"NONCE"'

WORDS = [
    Query("absent word", ALL, f'"NONCE" {C}', ["-F", "NONCE"]),
    Query("needle", ALL, f'"$needle" {NOT} {C}', ["-F", "$needle"], ["-w", "-F", "$needle"]),
    Query("needle, its line", "_msg", f'"$needle" {NOT}'),
    Query("word", ALL, f'"$word" {NOT} {C}', ["-F", "$word"], ["-w", "-F", "$word"]),
    Query("two words, and", ALL, f'"$word" "$beside" {NOT} {C}'),
    Query(
        "two words, or",
        ALL,
        f'("$word" or "$second") {NOT} {C}',
        ["-F", "-e", "$word", "-e", "$second"],
        ["-w", "-F", "-e", "$word", "-e", "$second"],
    ),
    Query("a word, not another", ALL, f'"$word" !"$second" !"$beside" {NOT} {C}'),
    Query("any of five words", ALL, f'contains_any($five) {NOT} {C}'),
    Query("phrase", ALL, f'"$phrase" {NOT} {C}', ["-F", "$phrase"], ["-w", "-F", "$phrase"]),
    Query("words in a row", ALL, f'seq("$phrase_first", "$phrase_last") {NOT} {C}'),
    Query("prefix", ALL, f'$prefix* {NOT} {C}', ["-F", "$prefix"], [r"\b$prefix"]),
    Query("substring", ALL, f'*$part* {NOT} {C}', ["-F", "$part"]),
    Query("any case", ALL, f'i("$cased") {NOT} {C}', ["-i", "-F", "$cased"], ["-i", "-w", "-F", "$cased"]),
    Query(
        "phrase in any case",
        ALL,
        f'i("$cased_phrase") {NOT} {C}',
        ["-i", "-F", "$cased_phrase"],
        ["-i", "-w", "-F", "$cased_phrase"],
    ),
    Query("regex with a literal", ALL, f'~"$literal" {NOT} {C}', ["$literal"]),
    Query("regex of two words", ALL, f'~"$word|$second" {NOT} {C}', ["$word|$second"]),
    Query("regex without a literal", ALL, f'~`$loose` {NOT} {C}', ["$loose"]),
    Query("regex in any case", ALL, f'~"(?i)$cased" {NOT} {C}', ["-i", "$cased"]),
    Query("a whole message", ALL, f'_msg:="$message" {NOT} {C}'),
]

ONE_HOST = [
    Query("one host and a word", ALL, f'hostname:="$host" "$word" {NOT} {C}'),
    Query("one host and a word, by stream", ALL, f'{{$stream="$stream_value"}} "$word" {NOT} {C}'),
    Query("one host, counted", ALL, f'hostname:="$host" {NOT} {C}'),
    Query("one stream, counted", ALL, f'{{$stream="$stream_value"}} {NOT} {C}'),
    Query("streams by regex and a word", ALL, f'{{$stream=~"($stream_value|$stream_other)"}} "$word" {NOT} {C}'),
    Query("one application, counted", ALL, f'$app:="$app_value" {NOT} {C}'),
    Query("one application and a word", ALL, f'$app:="$app_value" "$app_word" {NOT} {C}'),
    Query("hosts of a list and a word", ALL, f'hostname:in("$host", "$host_other") "$word" {NOT} {C}'),
    Query("newest 100 of a host", "_time", f'hostname:="$host" {NOT} | sort by (_time desc) | limit 100'),
    Query("newest 100 of a host and a word", "_time", f'hostname:="$host" "$word" {NOT} | sort by (_time desc) | limit 100'),
    Query("a host by minutes", ALL, f'hostname:="$host" {NOT} | stats by (_time:1m) count() n'),
]

GROUPS = [
    Query("count by application", ALL, f"{NOT} | stats by ($app) count() n", sql="select $app, count(*) from lines group by 1"),
    Query(
        "count by host and application",
        ALL,
        f"{NOT} | stats by (hostname, $app) count() n",
        sql="select hostname, $app, count(*) from lines group by 1, 2",
    ),
    Query("a word by application", ALL, f'"$word" {NOT} | stats by ($app) count() n'),
    Query("a word by host and application", ALL, f'"$word" {NOT} | stats by (hostname, $app) count() n'),
    Query("count by 5 minutes", ALL, f"{NOT} | stats by (_time:5m) count() n"),
    Query("count by minute and application", ALL, f"{NOT} | stats by (_time:1m, $app) count() n"),
    Query("a word by minute", ALL, f'"$word" {NOT} | stats by (_time:1m) count() n'),
    Query("share of a word by application", ALL, f'{NOT} | stats by ($app) count() if ("$word") w, count() n | math w / n as share'),
    Query("groups above a bound", ALL, f"{NOT} | stats by (hostname, $app) count() n | filter n:>100"),
    Query("distinct hosts", ALL, f"{NOT} | stats count_uniq(hostname) n", sql="select count(distinct hostname) from lines"),
    Query("uniq of applications", ALL, f"{NOT} | uniq by ($app) with hits"),
    Query("top 10 hosts", "hits", f"{NOT} | top 10 by (hostname)"),
    Query(
        "top 10 of many values",
        "hits",
        f"{NOT} | top 10 by ($many)",
        sql="select $many, count(*) n from lines group by 1 order by n desc limit 10",
    ),
    Query("distinct of many values", ALL, f"{NOT} | stats count_uniq($many) n", sql="select count(distinct $many) from lines"),
    Query("top 10 of many values of a word", "hits", f'"$word" {NOT} | top 10 by ($many)'),
    Query("top 10 messages", "hits", f"{NOT} | top 10 by (_msg)"),
    Query("top 10 messages of a word", "hits", f'"$word" {NOT} | top 10 by (_msg)'),
    Query("top 10 without numbers", "hits", f"{NOT} | collapse_nums | top 10 by (_msg)"),
    Query("top 10 of a word without numbers", "hits", f'"$word" {NOT} | collapse_nums | top 10 by (_msg)'),
    Query("patterns", ANY, f"{NOT} | patterns 20", own=True),
    Query("patterns of a word", ANY, f'"$word" {NOT} | patterns 20', own=True),
    Query("facets", ANY, f"{NOT} | facets"),
    Query("facets of a word", ANY, f'"$word" {NOT} | facets'),
    Query("names of fields", ANY, f"{NOT} | field_names"),
    Query("values of a field", "hits", f"{NOT} | field_values $app"),
]

ROWS = [
    Query("newest 100 of a word", "_time", f'"$word" {NOT} | sort by (_time desc) | limit 100'),
    Query("newest 100 of a word by `limit=`", "_time", f'"$word" {NOT}', limit=100),
    Query("newest 100 of all", "_time", f"{NOT} | sort by (_time desc) | limit 100"),
    Query("newest 100 of all by `limit=`", "_time", NOT, limit=100),
    Query("oldest 100 of a word", "_time", f'"$word" {NOT} | sort by (_time) | limit 100'),
    Query("second page of a word", "_time", f'"$word" {NOT} | sort by (_time desc) offset 100 limit 100'),
    Query("any 10", COUNT, f"{NOT} | limit 10"),
    Query("any 100 of a word", COUNT, f'"$word" {NOT} | limit 100'),
    Query("sort by a field, limit", "$many", f"{NOT} | sort by ($many desc) limit 10 | fields $many"),
    Query("sort by two fields, limit", "hostname $app", f"{NOT} | sort by (hostname, $app) limit 10 | fields hostname, $app"),
    Query("last of each application", "_time", f"{NOT} | last 1 by (_time) partition by ($app) | fields _time, $app"),
]

IN_RANGE = [
    Query("range: count", ALL, f"_time:$middle {NOT} {C}"),
    Query("range: a word", ALL, f'_time:$middle "$word" {NOT} {C}'),
    Query("range: one host and a word", ALL, f'_time:$middle hostname:="$host" "$word" {NOT} {C}'),
    Query("range: substring", ALL, f"_time:$middle *$part* {NOT} {C}"),
    Query("range: count by application", ALL, f"_time:$middle {NOT} | stats by ($app) count() n"),
    Query("range: newest 100 of a word", "_time", f'_time:$middle "$word" {NOT} | sort by (_time desc) | limit 100'),
    Query("range: top 10 messages", "hits", f"_time:$middle {NOT} | top 10 by (_msg)"),
]

COMPUTED = [
    Query("longest message", ALL, f"{NOT} | len(_msg) as l | stats max(l) n"),
    Query("bytes of messages by application", ALL, f"{NOT} | stats by ($app) sum_len(_msg) n"),
    Query("extract from a word, top", "hits", f'"$phrase" {NOT} | extract "$phrase_first$phrase_between<next> " | top 10 by (next)'),
    Query("extract by regex, top", "hits", f'"$word" {NOT} | extract_regexp "(?P<num>[0-9]+)" | top 10 by (num)'),
    Query("replace by regex, top", "hits", f'"$word" {NOT} | replace_regexp ("[0-9]+", "N") at _msg | top 10 by (_msg)'),
    Query("replace, count", ALL, f'"$word" {NOT} | replace ("$word", "NONCE") at _msg | filter "NONCE" {C}'),
    Query("format, top", "hits", f'{NOT} | format "<hostname>/<$app>" as where | top 10 by (where)'),
    Query("hosts of another word", ALL, f'"$word" hostname:in("$second" {NOT} | fields hostname) {NOT} {C}'),
    Query(
        "join of two words by host",
        ALL,
        f'"$word" {NOT} | stats by (hostname) count() n | join by (hostname) ("$second" {NOT} | stats by (hostname) count() m)',
    ),
    Query("union of two words", COUNT, f'"$word" {NOT} | limit 50 | union ("$second" {NOT} | limit 50)'),
]

SYSLOG = [
    Query("severity and a word", ALL, f'severity:="$severity" "$word" {NOT} {C}'),
    Query("severity below a bound", ALL, f"severity:<4 {NOT} {C}"),
    Query("count by severity", ALL, f"{NOT} | stats by (severity) count() n", sql="select severity, count(*) from lines group by 1"),
    Query("a range of process ids", ALL, f"proc_id:>10000 {NOT} {C}"),
]

# Of JSON: `$number` and `$other_number` are fields with numbers, `$equal` has some hundred values or fewer.
JSON = [
    Query("field equals", ALL, f'$equal:="$equal_value" {NOT} {C}', ["-F", "$equal_json"]),
    Query("field equals, by application", ALL, f'$equal:="$equal_value" {NOT} | stats by ($app) count() n'),
    Query("one value of many", ALL, f'$many:="$many_value" {NOT} {C}'),
    Query("one value of many, its lines", "_time", f'$many:="$many_value" {NOT} | sort by (_time desc) | limit 100'),
    Query(
        "a number above a bound",
        ALL,
        f"$number:>$bound {NOT} {C}",
        sql="select count(*) from lines where try_cast($number as double) > $bound",
    ),
    Query("a number in a range", ALL, f"$number:range($low, $bound) {NOT} {C}"),
    Query("sum", ALL, f"{NOT} | stats sum($number) n", sql="select sum(try_cast($number as double)) from lines"),
    Query("average", ALL, f"{NOT} | stats avg($number) n", sql="select avg(try_cast($number as double)) from lines"),
    Query("least and greatest", ALL, f"{NOT} | stats min($number) a, max($number) b"),
    Query("quantiles", NEAR, f"{NOT} | stats quantile(0.5, $number) a, quantile(0.99, $number) b"),
    Query("median by application", NEAR, f"{NOT} | stats by ($app) median($number) n"),
    Query("standard deviation", ALL, f"{NOT} | stats stddev($number) n"),
    Query(
        "sum and average by application",
        ALL,
        f"{NOT} | stats by ($app) sum($number) a, avg($other_number) b",
        sql="select $app, sum(try_cast($number as double)), avg(try_cast($other_number as double)) from lines group by 1",
    ),
    Query("average by 5 minutes", ALL, f"{NOT} | stats by (_time:5m) avg($number) n"),
    Query("greatest by 5 minutes and application", ALL, f"{NOT} | stats by (_time:5m, $app) max($number) n"),
    Query("p99 by 5 minutes", NEAR, f"{NOT} | stats by (_time:5m) quantile(0.99, $number) n"),
    Query("sum of one application", ALL, f'$app:="$app_value" {NOT} | stats sum($number) n'),
    Query("sum of a word", ALL, f'"$word" {NOT} | stats sum($number) n'),
    Query("average of a quotient", ALL, f"{NOT} | math $number / $other_number as r | stats avg(r) n"),
    Query("sum of a product by application", ALL, f"{NOT} | math $number * 8 as r | stats by ($app) sum(r) n"),
    Query("greatest 10 of a number", "$number", f"{NOT} | sort by ($number desc) limit 10 | fields $number"),
    Query("range: sum", ALL, f"_time:$middle {NOT} | stats sum($number) n"),
    Query("range: average by application", ALL, f"_time:$middle {NOT} | stats by ($app) avg($number) n"),
]

# Of the mix `services` alone, whose fields they name.
SERVICES = [
    Query("error rate by service", ALL, f"{NOT} | stats by (service) count() if (status:>=500) e, count() n | math e / n as rate"),
    Query("status classes by 5 minutes", ALL, f"{NOT} | stats by (_time:5m) count() if (status:<400) ok, count() if (status:>=500) bad"),
    Query("errors by level and service", ALL, f'level:="error" {NOT} | stats by (service) count() n'),
    Query("slow requests of a path", "_time", f'path:~"^/api/orders" duration_ms:>500 {NOT} | sort by (_time desc) | limit 100'),
    Query("worst users", "e", f"status:>=500 {NOT} | stats by (user) count() e | sort by (e desc) limit 10"),
    Query("unpack JSON, group", ALL, f"details:* {NOT} | unpack_json from details fields (region) | stats by (region) count() n"),
    Query("unpack logfmt, group", ALL, f'"handled" {NOT} | unpack_logfmt from _msg fields (cache) | stats by (cache) count() n'),
    Query("unpack logfmt, sum", ALL, f'"handled" {NOT} | unpack_logfmt from _msg fields (rows) | stats sum(rows) n'),
    Query("lines of failed traces", ALL, f'trace:in(status:=503 service:="payments" {NOT} | fields trace) {NOT} {C}'),
]


def of(mix, words):
    """The queries of a mix; `words` maps the names in queries to texts. Shapes that need words the mix lacks are left out."""
    shapes = WORDS + ONE_HOST + GROUPS + ROWS + IN_RANGE + COMPUTED
    shapes += (JSON if mix.is_json else SYSLOG) + (SERVICES if mix.name == "services" else [])
    made = []
    for shape in shapes:
        if all(words.get(name) is not None for name in names(shape)):
            fill = lambda text: string.Template(text).substitute(words)
            arguments = {key: list(map(fill, getattr(shape, key) or [])) for key in ("rg", "rg_exact")}
            made.append(
                dataclasses.replace(shape, compare=fill(shape.compare), logsql=fill(shape.logsql), sql=fill(shape.sql), **arguments)
            )
    return made


def names(shape):
    """The `$names` of a shape."""
    texts = [shape.compare, shape.logsql, shape.sql, *(shape.rg or []), *(shape.rg_exact or [])]
    return {found["named"] for text in texts for found in string.Template.pattern.finditer(text) if found["named"]}
