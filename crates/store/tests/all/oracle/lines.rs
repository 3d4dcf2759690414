//! Lines for the histories. Each contains its number, so that it is recognized wherever it turns
//! up, and a mark that filters select.

/// Marks of lines. A filter of `@a` selects every fifth line or so.
pub const MARKS: [&str; 5] = ["@a", "@b", "@c", "@d", "@e"];

/// A line of one of the kinds that are stored differently: with a header or without, as JSON, of
/// several lines, of bytes that are no text; short and long, similar to others and not.
pub fn line(number: usize, mark: &str, rng: &mut fastrand::Rng) -> Vec<u8> {
    let (host, app, small) = (rng.u8(..3), rng.u8(..3), rng.u32(..1000));
    let text = match rng.u8(..8) {
        0..3 => format!(
            "<{}>1 2026-01-02T03:04:{:02}.{small:03}Z host{host} app{app} {small} - - #{number}# {mark} took {small} ms",
            rng.u8(..192),
            small % 60,
        ),
        3 => format!(
            "<13>Jan  2 03:04:{:02} host{host} app{app}[{small}]: #{number}# {mark}",
            small % 60
        ),
        4 => format!(
            r##"{{"level":"info","n":{small},"msg":"#{number}# {mark}","host":"host{host}"}}"##
        ),
        5 => format!(
            r#"10.0.0.{host} - - [02/Jan/2026:03:04:05 +0000] "GET /#{number}#/{mark} HTTP/1.1" 200 {small}"#
        ),
        6 => format!("#{number}# {mark} {}\n\tat line two\n", "long ".repeat(rng.usize(..60))),
        _ => return noise(number, mark, rng),
    };
    text.into_bytes()
}

/// Bytes that cannot be compressed and are no text.
fn noise(number: usize, mark: &str, rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = format!("#{number}# {mark} ").into_bytes();
    let any = |rng: &mut fastrand::Rng| match rng.u8(..) {
        b'#' | b'@' => 0,
        byte => byte,
    };
    let count = rng.usize(..300);
    bytes.extend((0..count).map(|_| any(rng)));
    bytes
}

/// The number that a line contains; None when the histories did not make the line.
pub fn number_of(line: &[u8]) -> Option<usize> {
    let mut parts = line.split(|&b| b == b'#');
    std::str::from_utf8(parts.nth(1)?).ok()?.parse().ok()
}
