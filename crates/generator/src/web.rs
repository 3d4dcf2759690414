//! The path of a request: nginx's access and error log, and HAProxy in front.

use super::clock::append;
use super::world::{Context, Said, Severity, Visitor, facility};

/// Path, method, usual size of the answer.
const PAGES: [(&str, &str, u32); 12] = [
    ("/", "GET", 14_200),
    ("/products/", "GET", 18_900),
    ("/static/app.css", "GET", 6_300),
    ("/static/app.js", "GET", 91_400),
    ("/api/cart", "GET", 830),
    ("/api/cart", "POST", 410),
    ("/api/orders", "POST", 260),
    ("/api/orders/", "GET", 940),
    ("/search?q=lamp", "GET", 9_700),
    ("/images/p/", "GET", 48_000),
    ("/login", "POST", 320),
    ("/health", "GET", 2),
];
const AGENTS: [&str; 5] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1",
    "curl/8.14.1",
    "ExampleBot/2.1 (+https://bot.example/)",
];

/// nginx, combined format.
pub fn access(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let (path, method, size) = cx.pick_uneven(&PAGES);
    let visitor = cx.visitor();
    let number = if path.ends_with('/') && path.len() > 1 { cx.rng.u32(1_000..90_000) } else { 0 };
    let status = match cx.rng.u32(..1_000) {
        _ if cx.is_failing && path.starts_with("/api/orders") && cx.rng.u32(..100) < 85 => 500,
        0..2 => 500,
        2..4 => 502,
        4..30 => 404,
        30..42 => 403,
        42..110 if method == "GET" => 304,
        42..90 if path == "/login" => 401,
        _ if path == "/api/orders" => 201,
        _ => 200,
    };
    let bytes = match status {
        200 | 201 => size / 2 + cx.rng.u32(..=size),
        304 => 0,
        _ => 150 + cx.rng.u32(..40),
    };
    request(cx, out, visitor, method, path, number, status, bytes)
}

/// nginx's line for a failed order; the path contains `order`.
pub fn failed_order(cx: &mut Context<'_>, out: &mut Vec<u8>, order: u32) -> Said {
    let visitor = cx.visitor();
    let bytes = 150 + cx.rng.u32(..40);
    request(cx, out, visitor, "GET", "/api/orders/", order, 500, bytes)
}

#[expect(clippy::too_many_arguments, reason = "the columns of the format")]
fn request(
    cx: &mut Context<'_>,
    out: &mut Vec<u8>,
    visitor: Visitor,
    method: &str,
    path: &str,
    number: u32,
    status: u16,
    bytes: u32,
) -> Said {
    append(out, format_args!("{visitor} - - [{}] \"{method} {path}", cx.stamp.access()));
    if number > 0 {
        append(out, format_args!("{number}"));
    }
    let referrer = if cx.rng.bool() { "https://shop.example/" } else { "-" };
    let agent = cx.pick_uneven(&AGENTS);
    append(out, format_args!(" HTTP/1.1\" {status} {bytes} \"{referrer}\" \"{agent}\""));
    Said {
        app: "nginx",
        pid: cx.pid("nginx"),
        facility: facility::LOCAL7,
        severity: Severity::Info,
    }
}

/// nginx's error log.
pub fn error(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let pid = cx.pid("nginx");
    let connection = cx.rng.u32(100_000..9_999_999);
    let visitor = cx.visitor();
    let severity = if cx.rng.u32(..3) == 0 { Severity::Error } else { Severity::Warning };
    match severity {
        Severity::Error => append(
            out,
            format_args!(
                "*{connection} upstream prematurely closed connection while reading response header from upstream, client: {visitor}, server: shop.example, request: \"GET /api/cart HTTP/1.1\", upstream: \"http://10.0.2.21:8080/api/cart\""
            ),
        ),
        _ => append(
            out,
            format_args!(
                "*{connection} an upstream response is buffered to a temporary file /var/cache/nginx/proxy_temp/{}/{:02}/{connection:010} while reading upstream, client: {visitor}, server: shop.example",
                connection % 10,
                connection / 10 % 100
            ),
        ),
    }
    Said { app: "nginx", pid, facility: facility::LOCAL7, severity }
}

/// HAProxy, HTTP format.
pub fn haproxy(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let (path, method, size) = cx.pick_uneven(&PAGES);
    let visitor = cx.visitor();
    append(out, format_args!("{visitor}:{} [", cx.rng.u16(20_000..60_000)));
    cx.stamp.haproxy(out);
    let wait = cx.duration_ms(18.0) as u32;
    let failed = cx.is_failing && path.starts_with("/api/orders") && cx.rng.u32(..100) < 85;
    let (status, severity) = if failed { (500, Severity::Notice) } else { (200, Severity::Info) };
    let server = cx.pick(&["web1", "web2", "web3"]);
    let bytes = size / 2 + cx.rng.u32(..=size);
    let connections = cx.rng.u32(40..190);
    append(
        out,
        format_args!(
            "] fe_https~ be_web/{server} 0/0/1/{wait}/{} {status} {bytes} - - ---- {connections}/{}/{}/{}/0 0/0 \"{method} {path} HTTP/1.1\"",
            wait + 1,
            connections - 3,
            connections / 9,
            connections / 30
        ),
    );
    Said { app: "haproxy", pid: cx.pid("haproxy"), facility: facility::LOCAL0, severity }
}
