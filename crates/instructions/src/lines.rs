//! The lines of the workload: three kinds, the same in each run.

use std::fmt::Write as _;

/// When the lines arrive, nanoseconds since 1970 UTC: 2026-01-31 12:00.
pub(crate) const ARRIVAL_NS: i64 = 1_769_860_800 * 1_000_000_000;

/// `count` lines of RFC 3164: four programs on eight hosts.
pub(crate) fn syslog(count: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut out = String::new();
    for number in 0..count {
        let host = random.u32(1..=8);
        let (minute, second) = (number * 50 / count, number % 60);
        let _ = write!(out, "<{}>Jan 31 11:{minute:02}:{second:02} web{host} ", random.u32(8..48));
        let (user, port) = (random.u32(..400), random.u32(1_024..65_536));
        let address = format!("10.{}.{}.{}", random.u8(..8), random.u8(..), random.u8(..));
        let pid = 300 + host * 17;
        let _ = match random.u32(..10) {
            0 => writeln!(
                out,
                "sshd[{pid}]: Failed password for user{user} from {address} port {port} ssh2"
            ),
            1..4 => writeln!(out, "sshd[{pid}]: Connection closed by {address} port {port}"),
            4..7 => writeln!(
                out,
                "kernel: [UFW BLOCK] IN=eth0 OUT= SRC={address} DST=10.0.0.{host} PROTO=TCP \
                 SPT={port}"
            ),
            7..9 => writeln!(
                out,
                "shop[{pid}]: level=info msg=\"order {port} of user{user} paid\" took={}ms",
                user * 3
            ),
            _ => {
                writeln!(out, "shop[{pid}]: error: pool of user{user} is empty, waiting {port} us")
            }
        };
    }
    out.into_bytes()
}

/// `count` lines of JSON: requests of five services.
pub(crate) fn json(count: usize) -> Vec<u8> {
    const SERVICES: [&str; 5] = ["gateway", "cart", "orders", "payments", "search"];
    const STATUSES: [u32; 8] = [200, 200, 200, 200, 201, 404, 429, 500];
    let mut random = fastrand::Rng::with_seed(2);
    let mut out = String::new();
    for number in 0..count {
        let service = SERVICES[random.usize(..SERVICES.len())];
        let status = STATUSES[random.usize(..STATUSES.len())];
        let (minute, second, milli) = (number * 50 / count, number % 60, random.u32(..1_000));
        let (item, bytes) = (random.u32(..5_000), random.u32(..200_000));
        let took = f64::from(random.u32(1..90_000)) / 100.0;
        let _ = writeln!(
            out,
            "{{\"_time\":\"2026-01-31T11:{minute:02}:{second:02}.{milli:03}Z\",\
             \"service\":\"{service}\",\"trace\":\"{:016x}\",\
             \"path\":\"/api/{service}/{item}\",\"status\":{status},\
             \"duration_ms\":{took},\"bytes\":{bytes},\
             \"_msg\":\"request handled by {service}, item {item}\"}}",
            random.u64(..)
        );
    }
    out.into_bytes()
}

/// `count` lines of an access log in the combined format.
pub(crate) fn access(count: usize) -> Vec<u8> {
    const PATHS: [&str; 6] =
        ["/", "/login", "/app.js", "/style.css", "/api/orders", "/favicon.ico"];
    const AGENTS: [&str; 3] = [
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X)",
        "curl/8.5.0",
    ];
    let mut random = fastrand::Rng::with_seed(3);
    let mut out = String::new();
    for number in 0..count {
        let path = PATHS[random.usize(..PATHS.len())];
        let agent = AGENTS[random.usize(..AGENTS.len())];
        let (minute, second) = (number * 50 / count, number % 60);
        let _ = writeln!(
            out,
            "192.0.2.{} - - [31/Jan/2026:11:{minute:02}:{second:02} +0000] \
             \"GET {path}?id={} HTTP/1.1\" {} {} \"-\" \"{agent}\"",
            random.u8(..),
            random.u32(..100_000),
            if random.u32(..20) == 0 { 404 } else { 200 },
            random.u32(..60_000),
        );
    }
    out.into_bytes()
}
