//! A hostile corpus over HTTP: callers of every kind (tokens, passwords and sessions; of a tenant,
//! with a filter, with hidden fields) send every request of [`restricted`] and random ones to a
//! store with the lines of all, beside a store that holds only what that caller may see. The
//! answers must be equal, byte for byte, except for what [`restricted`] leaves out.
//!
//! `LOGINSON_HOSTILE=100000` makes a long run of the random requests (`make test-long`), and
//! `LOGINSON_SEED` repeats one.

use axum::http::header::{AUTHORIZATION, COOKIE, ORIGIN};
use fastrand::Rng;
use node::ingest::tenants::TenantOptions;

use super::gate::{basic, cheap_hash, digest_of, path};
use super::restricted::{
    Asked, NO_LINE_ID, OF_TEXT, SECRET, comparable, encoded, id_in, lines, requests,
};
use super::tenants::{TENANTS, tenants, with_tokens};
use super::*;
use crate::access::principal::Scope;
use crate::access::rights::RightsText;
use crate::access::users::{Token, User};

/// The word that each line of another tenant has.
const FOREIGN: &str = "brackenfel";
/// What callers may do: all of their tenant, some of its lines, and these without some fields.
const RIGHTS: [&str; 3] = ["plain", "filtered", "limited"];
/// How a caller says who it is.
const WAYS: [&str; 3] = ["token", "password", "session"];

fn rights(name: &str) -> RightsText {
    let mut rights = RightsText { tenant: Some("shop".to_owned()), ..RightsText::of_role("read") };
    if name != "plain" {
        rights.filter = Some("app:=shop".into());
    }
    if name == "limited" {
        rights.hide_fields = vec!["client_ip".into(), "user.*".into(), "hostname".into()];
    }
    rights
}

fn with_callers(options: &mut ApiOptions) {
    with_tokens(options);
    for name in RIGHTS {
        let checked = rights(name).checked().unwrap();
        let token = Token::new(format!("{name}-token").into(), digest_of(name), checked.clone());
        options.access.tokens.push(token);
        let (hash, rights) = (cheap_hash(), Arc::new(checked));
        options.access.users.push(User { name: name.into(), hash, rights });
    }
}

/// A store with lines, and what its callers send to say who they are.
struct Store {
    fixture: Fixture,
    /// The cookies of the sessions of [`RIGHTS`].
    cookies: Vec<String>,
    /// The ids of a line that all callers see, and of one that restricted callers do not.
    ids: (String, String),
}

impl Store {
    /// `seen`: the lines of the tenant `shop`, by their numbers. `is_whole`: with the lines of
    /// other tenants, too.
    async fn new(seen: impl Fn(std::ops::Range<u32>) -> String, is_whole: bool) -> Store {
        let fixture = Fixture::of_tenants(tenants(|_: &mut Vec<TenantOptions>| {}), with_callers);
        for (numbers, seals) in [(0..200, true), (200..260, false)] {
            let mut sent = vec![("shop", seen(numbers.clone()))];
            for (name, ..) in TENANTS.iter().filter(|(name, ..)| is_whole && *name != "shop") {
                let lines = lines(numbers.clone(), false).0;
                sent.push((*name, lines.replace("order", &format!("order {FOREIGN}"))));
            }
            for (name, lines) in sent {
                let token = format!("{name}-writes");
                let call = "/insert/jsonline";
                let (status, answer) = fixture.as_token(&token, "POST", call, &[], lines).await;
                assert_eq!(status, 200, "{answer}");
            }
            if seals {
                fixture.seal().await;
            }
        }
        let has_other = seen(0..1).contains("mail");
        let mut cookies = Vec::new();
        for name in RIGHTS {
            cookies.push(fixture.log_in_at_page(name, "correct horse").await.unwrap());
        }
        let mut store = Store { fixture, cookies, ids: Default::default() };
        let seen = store.id("\"order 100 took\"").await.expect("a line that is seen");
        let other = store.id("app:=mail").await;
        assert_eq!(other.is_some(), has_other, "lines that restricted callers do not see");
        store.ids = (seen, other.unwrap_or_else(|| NO_LINE_ID.to_owned()));
        store
    }

    /// The id of the newest line of a filter.
    async fn id(&self, filter: &str) -> Option<String> {
        let path = format!("{}{}&include=_line_id&limit=1", query(""), encoded(filter));
        let (status, answer) = self.fixture.read_as("plain", &path).await;
        assert_eq!(status, 200, "{filter}: {answer}");
        id_in(answer.as_bytes())
    }

    async fn ask(&self, rights: usize, way: &str, asked: &Asked) -> (u16, Vec<u8>) {
        let path = asked.path.replace("OTHER", &self.ids.1).replace("ID", &self.ids.0);
        let asked = Asked { path, ..asked.clone() };
        let name = RIGHTS[rights];
        let headers = match way {
            "token" => vec![(AUTHORIZATION.as_str(), format!("Bearer {name}"))],
            "password" => vec![(AUTHORIZATION.as_str(), basic(name, "correct horse"))],
            _ => {
                let origin = (ORIGIN.as_str(), "http://localhost".to_owned());
                vec![(COOKIE.as_str(), self.cookies[rights].clone()), origin]
            }
        };
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.fixture.asked_with(&headers, &asked).await
    }
}

fn query(text: &str) -> String {
    format!("/select/logsql/query?query={}", encoded(text))
}

/// The store with all lines, and beside it those with what callers of [`RIGHTS`] see.
struct Stores {
    whole: Store,
    parts: Vec<Store>,
}

impl Stores {
    async fn new() -> Stores {
        let whole = Store::new(|numbers| lines(numbers, false).0, true).await;
        let parts = vec![
            Store::new(|numbers| lines(numbers, false).0, false).await,
            Store::new(|numbers| lines(numbers, false).1, false).await,
            Store::new(|numbers| lines(numbers, true).1, false).await,
        ];
        Stores { whole, parts }
    }

    /// How the answer to a restricted caller differs from that to one who sees all of a store with
    /// nothing else; and the status there.
    async fn difference(&self, rights: usize, way: &str, asked: &Asked) -> (u16, Option<String>) {
        let part = &self.parts[rights];
        let (status, body) = self.whole.ask(rights, way, asked).await;
        let (expected, expected_body) = part.ask(0, "token", asked).await;
        let told = String::from_utf8_lossy(&body);
        // A message may repeat what was asked.
        let names = |text: &str| asked.path.contains(text) || asked.body.contains(text);
        let kept: &[&str] = match rights {
            0 => &[FOREIGN],
            1 => &[FOREIGN, "order of zebra"],
            _ => &[FOREIGN, SECRET, "10.0.0.7"],
        };
        let is_told = kept.iter().find(|text| told.contains(**text) && !names(text));
        let (mut found, mut wanted) = (comparable(&body), comparable(&expected_body));
        if status != 200 {
            (found, wanted) =
                (found.replace(&self.whole.ids.1, ""), wanted.replace(&part.ids.1, ""));
        }
        let is_made_of_text = rights == 2 && OF_TEXT.contains(&asked.route);
        let differs = status != expected || found != wanted;
        let difference = (is_told.is_some() || differs && !is_made_of_text).then(|| {
            let short = |text: &str| text.chars().take(600).collect::<String>();
            format!(
                "{} by {way}: {} {} {} (tells {is_told:?})\n  {status} {}\n  {expected} {}",
                RIGHTS[rights],
                asked.method,
                asked.path,
                asked.body,
                short(&found),
                short(&wanted)
            )
        });
        (expected, difference)
    }
}

fn check(differing: &[String], cases: usize, answered: usize, least: usize) {
    let shown: Vec<&str> = differing.iter().take(20).map(String::as_str).collect();
    assert!(differing.is_empty(), "{} of {cases} differ:\n{}", differing.len(), shown.join("\n"));
    assert!(answered >= least, "only {answered} of {cases} requests were answered");
}

/// Every request of the corpus, by callers with every kind of credentials in turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_caller_is_answered_as_if_there_were_no_other_lines() {
    let stores = Stores::new().await;
    let (mut differing, mut cases, mut answered) = (Vec::new(), 0, 0);
    for (number, asked) in requests().iter().enumerate() {
        for rights in 0..RIGHTS.len() {
            let way = WAYS[(number + rights) % WAYS.len()];
            let (status, difference) = stores.difference(rights, way, asked).await;
            answered += usize::from(status == 200);
            cases += 1;
            differing.extend(difference);
        }
    }
    check(&differing, cases, answered, 1_500);
}

/// Parameters and headers by which a caller might try to be somebody else, or to see more.
fn tricks() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    vec![
        ("query=*", vec![]),
        ("query=*&tenants=*", vec![]),
        ("query=*&tenants=bank", vec![]),
        ("query=*&AccountID=13&ProjectID=0", vec![]),
        ("query=*", vec![("AccountID", "13")]),
        ("query=*", vec![("AccountID", "13"), ("ProjectID", "0")]),
        ("query=*", vec![("X-Scope-OrgID", "bank")]),
        ("query=*", vec![("X-Forwarded-User", "admin"), ("Remote-User", "admin")]),
        ("query=*&extra_filters=_tenant%3A%3D%2213%3A0%22%20or%20*", vec![]),
        ("query=_tenant%3A%3D%2213%3A0%22%20or%20brackenfel", vec![]),
        ("query=*%20%7C%20union%20(_tenant%3A%3D%2213%3A0%22)", vec![]),
    ]
}

/// Every route of the table with every trick: nothing of another tenant is told, and nothing
/// breaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_route_can_be_tricked() {
    let store = Store::new(|numbers| lines(numbers, false).0, true).await;
    let table = store.fixture.table();
    let (mut cases, mut told) = (0, Vec::new());
    for route in &table {
        // A tail does not end; it has tests of its own.
        if route.path.contains("/tail") {
            continue;
        }
        let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        let method = methods.into_iter().find(|name| route.method == *name).expect("it is known");
        for (parameters, headers) in tricks() {
            for name in RIGHTS {
                let secret = format!("Bearer {name}");
                let mut headers = headers.clone();
                headers.push((AUTHORIZATION.as_str(), &secret));
                // Of routes that take a form, the same in the body.
                for in_body in [false, true] {
                    let is_read = route.method == "GET" || route.method == "HEAD";
                    if in_body && (is_read || route.scope != Scope::Read) {
                        continue;
                    }
                    let (path, body) = match in_body {
                        true => (path(route), parameters.to_owned()),
                        false => (format!("{}?{parameters}", path(route)), String::new()),
                    };
                    let asked = Asked { route: "", method, path, body };
                    let (status, body) = store.fixture.asked_with(&headers, &asked).await;
                    let body = String::from_utf8_lossy(&body);
                    cases += 1;
                    let repeats = parameters.contains(FOREIGN) && status != 200;
                    if body.contains(&format!("order {FOREIGN}")) && !repeats || status == 500 {
                        told.push(format!("{name}: {asked:?} {headers:?}: {status} {body}"));
                    }
                }
            }
        }
    }
    assert!(
        told.is_empty(),
        "{} of {cases} tell:\n{}",
        told.len(),
        told[..told.len().min(10)].join("\n")
    );
    assert!(cases > 900, "only {cases} cases");
}

const FIELDS: [&str; 14] = [
    "_msg",
    "app",
    "level",
    "n",
    "app_name",
    "zebra",
    "client_ip",
    "user.name",
    "user.id",
    "hostname",
    "_stream",
    "_type",
    "_tenant",
    "nothing",
];
const VALUES: [&str; 18] = [
    "zebra", "order", "took", "shop", "mail", "error", "info", "10.0.0.7", "zebra1", "web", "4",
    "1", "101", FOREIGN, "13:0", "json", "", "12:3",
];

/// Makes requests at random.
struct Random(Rng);

impl Random {
    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.0.usize(..all.len())]
    }

    fn field(&mut self) -> &'static str {
        self.of(&FIELDS)
    }

    fn value(&mut self) -> String {
        format!("\"{}\"", self.of(&VALUES))
    }

    fn filter(&mut self, depth: u8) -> String {
        let kinds = if depth == 0 { 11 } else { 18 };
        let field = self.field();
        match self.0.u8(..kinds) {
            0 => self.value(),
            1 => format!("{field}:{}", self.value()),
            2 => format!("{field}:={}", self.value()),
            3 => format!("{field}:*"),
            4 => format!("{field}:\"\""),
            5 => format!("{field}:{}*", self.value()),
            6 => format!("{field}:~\"{}\"", self.of(&["^zeb", "[0-9]+", "o.der", ".*", "a|b"])),
            7 => format!("{field}:>{}", self.0.u8(..120)),
            8 => format!("{field}:in({}, {})", self.value(), self.value()),
            9 => format!("{field}:eq_field({})", self.field()),
            10 => format!("{{{}=~\".*{}.*\"}}", self.of(&["hostname", "_type"]), self.of(&VALUES)),
            11 | 12 => format!("!({})", self.filter(depth - 1)),
            13 => format!("({} or {})", self.filter(depth - 1), self.filter(depth - 1)),
            14 | 15 => format!("({} {})", self.filter(depth - 1), self.filter(depth - 1)),
            16 => format!("{field}:in({} | fields {field})", self.filter(depth - 1)),
            _ => format!("{field}:contains_any({} | fields {field})", self.filter(depth - 1)),
        }
    }

    fn pipe(&mut self) -> String {
        let (one, two) = (self.field(), self.field());
        match self.0.u8(..22) {
            0 => format!("fields {one}, {two}, _msg"),
            1 => format!("stats by ({one}) count() c, count_uniq({two}) u"),
            2 => format!("stats by ({one}, level) sum(n) s, min({two}) low, max({two}) high"),
            3 => format!("stats count() c, uniq_values({one}) v, avg(n) a"),
            4 => format!("uniq by ({one}, {two})"),
            5 => format!("top 50 by ({one})"),
            6 => "field_names".to_owned(),
            7 => "facets".to_owned(),
            8 => format!("filter {}", self.filter(1)),
            9 => format!("copy {one} as copied"),
            10 => format!("delete {one}"),
            11 => format!("format \"<{one}> and <{two}>\" as made"),
            12 => "extract \"took <ms> ms\" from _msg".to_owned(),
            13 => format!("math n * 2 + {one} as m"),
            14 => format!("union ({} | fields _time, _msg, {one})", self.filter(1)),
            15 => {
                let stats = format!("{} | stats by (n) count() c", self.filter(1));
                format!("join by (n) ({stats})")
            }
            16 => format!("replace (\"e\", \"E\") at {one}"),
            17 => format!("len({one}) as length"),
            18 => "pack_json as all".to_owned(),
            19 => format!("stats by ({one}) count() if ({}) c", self.filter(1)),
            20 => "stream_context before 1 after 1".to_owned(),
            _ => format!("limit {}", self.0.u8(1..40)),
        }
    }

    fn text(&mut self) -> String {
        let mut text = self.filter(2);
        text += " | sort by (_time, _msg)";
        for _ in 0..self.0.u8(..3) {
            text += " | ";
            text += &self.pipe();
        }
        text
    }

    fn logql(&mut self) -> String {
        let label = self.of(&["hostname", "_type", "app_name", "level", "client_ip"]);
        let selector = format!("{{{label}=~\".*{}.*\"}}", self.of(&VALUES));
        let stage = match self.0.u8(..7) {
            0 => String::new(),
            1 => format!(" |= {}", self.value()),
            2 => format!(" != {}", self.value()),
            3 => format!(" | json | client_ip={}", self.value()),
            4 => " | pattern \"order <n> took <ms> ms\"".to_owned(),
            5 => " | line_format \"{{.user_name}} {{.hostname}}\"".to_owned(),
            _ => " | keep client_ip, level".to_owned(),
        };
        match self.0.u8(..4) {
            0 => format!("sum by ({label}) (count_over_time({selector}{stage} [1h]))"),
            _ => format!("{selector}{stage}"),
        }
    }

    fn search(&mut self) -> String {
        let term = |random: &mut Random| match random.0.u8(..4) {
            0 => format!("{{\"term\":{{\"{}\":{}}}}}", random.field(), random.value()),
            1 => format!("{{\"exists\":{{\"field\":\"{}\"}}}}", random.field()),
            2 => format!("{{\"match\":{{\"{}\":{}}}}}", random.field(), random.value()),
            _ => "{\"match_all\":{}}".to_owned(),
        };
        let kind = self.of(&["must", "must_not", "filter"]);
        let (one, two) = (term(self), term(self));
        let aggregated = self.field();
        format!(
            "{{\"size\":50,\"sort\":[{{\"@timestamp\":\"asc\"}}],\
             \"query\":{{\"bool\":{{\"{kind}\":[{one},{two}]}}}},\
             \"aggs\":{{\"a\":{{\"terms\":{{\"field\":\"{aggregated}\"}}}}}}}}"
        )
    }

    fn asked(&mut self) -> Asked {
        let range = "start=2026-09-21T14:00:00Z&end=2026-09-21T15:00:00Z";
        let text = self.text();
        let with_query = |route: &str, more: &str, query: &str| {
            format!("{route}?query={}{more}", encoded(query))
        };
        let get = |route: &'static str, path: String| Asked {
            route,
            method: "GET",
            path,
            body: String::new(),
        };
        let of_filter = [
            "/select/logsql/facets",
            "/select/logsql/field_names",
            "/select/logsql/streams",
            "/select/logsql/stream_field_names",
        ];
        match self.0.u8(..16) {
            0..=4 => {
                let extra = match self.0.u8(..3) {
                    0 => format!("&extra_filters={}", encoded(&self.filter(1))),
                    1 => format!("&{range}"),
                    _ => String::new(),
                };
                let route = "/select/logsql/query";
                get(route, with_query(route, &extra, &text))
            }
            5 => Asked {
                route: "/select/logsql/query",
                method: "POST",
                path: "/select/logsql/query".to_owned(),
                body: format!("query={}", encoded(&text)),
            },
            6 => {
                let more = format!("&step=10m&field={}&{range}", self.field());
                let route = "/select/logsql/hits";
                get(route, with_query(route, &more, &self.filter(2)))
            }
            7 | 8 => {
                let route = self.of(&of_filter);
                get(route, with_query(route, "", &self.filter(2)))
            }
            9 => {
                let more = format!("&field={}", self.field());
                let route = "/select/logsql/field_values";
                get(route, with_query(route, &more, &self.filter(2)))
            }
            10 => {
                let stats = format!("{} | stats by ({}) count() c", self.filter(2), self.field());
                let route = "/select/logsql/stats_query";
                get(route, with_query(route, "&time=2026-09-21T15:00:00Z", &stats))
            }
            11 => {
                let stats = format!("{} | stats by ({}) count() c", self.filter(2), self.field());
                let route = "/select/logsql/stats_query_range";
                get(route, with_query(route, &format!("&step=10m&{range}"), &stats))
            }
            12 => {
                let more = format!("&format={}", self.of(&["jsonl", "csv"]));
                let route = "/api/v1/export";
                get(route, with_query(route, &more, &self.filter(2)))
            }
            13 | 14 => {
                let route = "/loki/api/v1/query_range";
                let more = format!("&{range}&step=600&limit=500");
                get(route, with_query(route, &more, &self.logql()))
            }
            _ => Asked {
                route: "/_search",
                method: "POST",
                path: "/elastic/_search".to_owned(),
                body: self.search(),
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_requests_are_answered_as_if_there_were_no_other_lines() {
    let number =
        |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seed = number("LOGINSON_SEED").unwrap_or_else(|| fastrand::u64(..));
    let cases = number("LOGINSON_HOSTILE").unwrap_or(300) as usize;
    println!("LOGINSON_SEED={seed}");
    let stores = Stores::new().await;
    let mut random = Random(Rng::with_seed(seed));
    let (mut differing, mut answered) = (Vec::new(), 0);
    for _ in 0..cases {
        let asked = random.asked();
        let (rights, way) = (random.0.usize(..RIGHTS.len()), random.of(&WAYS));
        let (status, difference) = stores.difference(rights, way, &asked).await;
        answered += usize::from(status == 200);
        differing.extend(difference);
    }
    check(&differing, cases, answered, cases / 2);
}
