//! Measures each way in beside its decoder alone, in one process and without a store.
//!
//! ```text
//! ways_speed [WAY…] [--seconds 3]
//! ```
//!
//! For each way: megabytes of payload and lines in a second of processor time, of the decoder alone
//! (payload to lines) and of the whole way (a connection, HTTP or the protocol's own framing, the
//! decoder, frames, delivery); the last column is the whole as a part of the decoder. Frames go to
//! a store that keeps nothing. The sender and the reader of its answers are threads of this
//! process, whose time is not counted. A payload has [`LINES`] lines, and is sent again and again
//! on one connection.
//!
//! Left out: ways without a decoder of their own in `collector` (lines, Loki), compression, TLS,
//! and UDP; `tcp_limit`, `http_limit`, `tls_limit` and `udp_limit` measure what carries them.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use api::ingest::{InsertOptions, Inserting};
use collector::answered::{Input, Output, Protocol, Step};
use collector::beats::Lumberjack;
use collector::body::metrics::influx::Points;
use collector::body::metrics::remote_write::Samples;
use collector::body::otlp::{Export, Format};
use collector::body::{Bulk, datadog, hec, journal, json_records, logplex, native, write_objects};
use collector::fluent::Forward;
use collector::relp::Relp;
use collector::{Accounting, BeatsSource, Deliver, FluentSource, RelpSource, TcpConfig};
use node::ingest::http_lines::HttpLines;
use node::storage::stored::Parsers;
use platform::RealClock;
use platform::memory::Budget;
use record::{Parser, ParserConfig};
use tokio::sync::watch;

use crate::frames::cpu_s;
use crate::traffic::{Nothing, number};

/// Lines of a payload.
const LINES: u64 = 2_000;
/// Payloads that were sent and not delivered yet. Beyond it, the sender waits.
const UNDER_WAY_MAX: u64 = 4;
/// A way that delivers nothing in this time is given up.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Decodes a payload as the server does, and appends its lines.
type Decode = fn(&[u8], &mut Vec<u8>);

struct Way {
    name: &'static str,
    carrier: Carrier,
    payload: Vec<u8>,
    decode: Decode,
}

/// What carries a payload.
enum Carrier {
    /// A request to this path, with these headers.
    Http(&'static str, &'static str),
    Fluent,
    Beats,
    Relp,
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (mut names, mut seconds) = (Vec::new(), 3);
    let mut words = crate::arguments();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => seconds = number(&words.next().ok_or("--seconds needs a value")?),
            _ => names.push(word),
        }
    }
    let seconds = Duration::from_secs(seconds);
    let ways = ways();
    if let Some(name) = names.iter().find(|name| ways.iter().all(|way| way.name != **name)) {
        let known: Vec<_> = ways.iter().map(|way| way.name).collect();
        return Err(format!("no way is named {name}; there are {}", known.join(", ")).into());
    }
    let bench = Bench::start()?;
    println!(
        "{:<16} {:>13} {:>16} {:>11} {:>14} {:>6}",
        "way", "decoder MB/s", "decoder lines/s", "whole MB/s", "whole lines/s", "part"
    );
    for way in ways.iter().filter(|way| names.is_empty() || names.iter().any(|n| n == way.name)) {
        let (decoded, decoder_s) = decode_alone(way, seconds);
        let (sent, whole_s) = bench.whole(way, seconds)?;
        let per_s = |count: u64, cpu_s: f64| count as f64 / cpu_s;
        let megabytes = |count, cpu_s| per_s(count * way.payload.len() as u64, cpu_s) / 1e6;
        println!(
            "{:<16} {:>13.0} {:>16.0} {:>11.0} {:>14.0} {:>6.2}",
            way.name,
            megabytes(decoded, decoder_s),
            per_s(decoded * LINES, decoder_s),
            megabytes(sent, whole_s),
            per_s(sent * LINES, whole_s),
            per_s(sent, whole_s) / per_s(decoded, decoder_s),
        );
    }
    Ok(())
}

/// Payloads that were decoded, and the processor time that it took.
fn decode_alone(way: &Way, seconds: Duration) -> (u64, f64) {
    let (mut count, mut out) = (0, Vec::new());
    let (begin, cpu) = (Instant::now(), cpu_s());
    while begin.elapsed() < seconds {
        out.clear();
        (way.decode)(std::hint::black_box(&way.payload), &mut out);
        assert!(!std::hint::black_box(&out).is_empty(), "{} decodes to nothing", way.name);
        count += 1;
    }
    (count, cpu_s() - cpu)
}

/// Every way in, in front of a store that keeps nothing.
struct Bench {
    store: Arc<Nothing>,
    http: SocketAddr,
    fluent: FluentSource,
    beats: BeatsSource,
    relp: RelpSource,
    _stop: watch::Sender<bool>,
    _runtime: tokio::runtime::Runtime,
}

impl Bench {
    fn start() -> Result<Bench, Box<dyn Error>> {
        let store = Arc::new(Nothing::default());
        let accounting = Arc::new(Accounting::default());
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let clock = || Arc::new(RealClock::new());
        let parsers = Parsers::new(Parser::new(&ParserConfig::default())?);
        let counted = Arc::clone(&accounting);
        let lines = HttpLines::start(Arc::clone(&store) as _, counted, clock(), Arc::new(parsers));
        let lines = Arc::new(lines);
        let to = move || Ok(Arc::clone(&lines));
        let (memory, opened) = (Budget::unlimited(), watch::channel(true).1);
        let options = InsertOptions::default();
        let inserting = Inserting::new(options, Arc::clone(&accounting), &memory, opened, to);

        let runtime = tokio::runtime::Runtime::new()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind(any))?;
        let http = listener.local_addr()?;
        let guard = api::Guard::new(http, &[], &[]);
        let gate = api::Gate::new(&Default::default(), http, false);
        let router = api::ingest_router(inserting, guard, gate);
        let (idle, connections) = (SILENCE_MAX, api::HTTP_CONNECTIONS_MAX);
        let clients = api::Clients::new(idle, connections, None, Arc::clone(&accounting));
        let (stop, stopping) = watch::channel(false);
        runtime.spawn(api::serve(listener, router, clients, stopping));

        let config = TcpConfig::default;
        let to = || -> Arc<dyn Deliver> { Arc::<Nothing>::clone(&store) };
        let counted = || Arc::clone(&accounting);
        Ok(Bench {
            http,
            fluent: FluentSource::start(any, config(), None, None, to(), counted(), clock())?,
            beats: BeatsSource::start(any, config(), None, to(), counted(), clock())?,
            relp: RelpSource::start(any, config(), None, to(), counted(), clock())?,
            store,
            _stop: stop,
            _runtime: runtime,
        })
    }

    /// Payloads that were delivered, and the processor time of all but the sender.
    fn whole(&self, way: &Way, seconds: Duration) -> Result<(u64, f64), Box<dyn Error>> {
        let address = match way.carrier {
            Carrier::Http(..) => self.http,
            Carrier::Fluent => self.fluent.local_addr(),
            Carrier::Beats => self.beats.local_addr(),
            Carrier::Relp => self.relp.local_addr(),
        };
        let mut connection = TcpStream::connect(address)?;
        connection.set_nodelay(true)?;
        let mut answers = connection.try_clone()?;
        // What the last answers were, for errors, and the time of reading them.
        let reader = thread::spawn(move || {
            let (mut piece, mut last) = ([0; 64 << 10], Vec::new());
            while let Ok(bytes @ 1..) = answers.read(&mut piece) {
                last = piece[..bytes.min(500)].to_vec();
            }
            (String::from_utf8_lossy(&last).into_owned(), cpu_s())
        });
        if let Carrier::Relp = way.carrier {
            connection.write_all(b"1 open 14 relp_version=0\n")?;
        }
        let head = match way.carrier {
            Carrier::Http(path, headers) => format!(
                "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n{headers}\r\n",
                way.payload.len()
            ),
            _ => String::new(),
        };
        let wire = [head.as_bytes(), &way.payload].concat();
        let (before, begin, cpu) = (self.store.lines(), Instant::now(), process_cpu_s()?);
        let (sender_cpu, mut sent, mut heard) = (cpu_s(), 0, Instant::now());
        let mut delivered = 0;
        while begin.elapsed() < seconds || delivered < sent {
            if begin.elapsed() < seconds && sent - delivered < UNDER_WAY_MAX {
                connection.write_all(&wire)?;
                sent += 1;
            } else {
                thread::sleep(Duration::from_micros(200));
            }
            let now = (self.store.lines() - before) / LINES;
            if now > delivered {
                (delivered, heard) = (now, Instant::now());
            }
            if heard.elapsed() > SILENCE_MAX {
                break;
            }
        }
        let sender_cpu = cpu_s() - sender_cpu;
        let cpu = process_cpu_s()? - cpu;
        connection.shutdown(Shutdown::Both)?;
        let (last, reader_cpu) = reader.join().expect("the reader of answers does not panic");
        match delivered < sent {
            true => {
                Err(format!("{}: lines do not arrive; the last answer: {last}", way.name).into())
            }
            false => Ok((delivered, cpu - sender_cpu - reader_cpu)),
        }
    }
}

/// Processor time of this process in seconds, in steps of ten milliseconds.
fn process_cpu_s() -> Result<f64, Box<dyn Error>> {
    const TICKS_PER_S: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // Behind the name, which may have spaces.
    let fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks: f64 = fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_PER_S)
}

fn way(name: &'static str, carrier: Carrier, payload: Vec<u8>, decode: Decode) -> Way {
    Way { name, carrier, payload, decode }
}

fn http(
    name: &'static str,
    path: &'static str,
    headers: &'static str,
    payload: Vec<u8>,
    decode: Decode,
) -> Way {
    way(name, Carrier::Http(path, headers), payload, decode)
}

fn ways() -> Vec<Way> {
    const JSON: &str = "Content-Type: application/json\r\n";
    const PROTOBUF: &str = "Content-Type: application/x-protobuf\r\n";
    vec![
        http("jsonline", "/insert/jsonline", JSON, of_each(json), |payload, out| {
            let mut scratch = Vec::new();
            out.extend_from_slice(json_records(payload, &mut scratch));
        }),
        http(
            "bulk",
            "/_bulk",
            JSON,
            of_each(|n| format!("{{\"create\":{{}}}}\n{}", json(n))),
            |payload, out| {
                let taken = Bulk::default().take(payload, |line| out.extend_from_slice(line));
                taken.expect("actions and documents");
            },
        ),
        http("otlp-protobuf", "/v1/logs", PROTOBUF, otlp_protobuf(), |payload, out| {
            let export = Export::read(Format::Protobuf, payload);
            export.expect("an export").write(out, usize::MAX);
        }),
        http("otlp-json", "/v1/logs", JSON, otlp_json(), |payload, out| {
            let export = Export::read(Format::Json, payload);
            export.expect("an export").write(out, usize::MAX);
        }),
        http("otlp-metrics", "/v1/metrics", JSON, otlp_metrics(), |payload, out| {
            let export = Export::read_metrics(Format::Json, payload);
            export.expect("an export").write(out, usize::MAX);
        }),
        http(
            "splunk",
            "/services/collector/event",
            JSON,
            of_each(|n| {
                format!("{{\"time\":1769860800.5,\"host\":\"web1\",\"event\":{}}}\n", bare(n))
            }),
            |payload, out| {
                let defaults = hec::Defaults::of(|_| None);
                let mut events = hec::Events::of(payload);
                while events.write_next(&defaults, out).expect("an event") {}
            },
        ),
        http("datadog", "/api/v2/logs", JSON, list(bare), |payload, out| {
            let defaults = datadog::Defaults::of(|_| None);
            let mut logs = datadog::Logs::of(payload);
            while logs.write_next(&defaults, out).expect("a log") {}
        }),
        http("gelf", "/gelf", JSON, list(gelf), |payload, out| {
            assert!(write_objects(payload, out));
        }),
        http(
            "native",
            "/insert/native?version=v1",
            "",
            of_each_bytes(native_row),
            |payload, out| {
                let mut rows =
                    native::Rows::read(payload, Some(record::Tenant::DEFAULT)).expect("rows");
                while rows.next_group().is_some() {
                    while rows.write_next(out) {}
                }
            },
        ),
        http(
            "journal",
            "/upload",
            "Content-Type: application/vnd.fdo.journal\r\n",
            of_each(|n| {
                format!(
                    "__REALTIME_TIMESTAMP={}\n_HOSTNAME=web1\nPRIORITY=4\nSYSLOG_IDENTIFIER=cart\nMESSAGE={}\n\n",
                    1_769_860_800_000_000 + n,
                    message(n)
                )
            }),
            |mut payload, out| {
                let mut entries = journal::Entries::default();
                while let Some(entry) = entries.next(&mut payload).expect("an entry") {
                    out.extend(journal::line_of(entry));
                    out.push(b'\n');
                }
            },
        ),
        http(
            "logplex",
            "/insert/logplex",
            "Content-Type: application/logplex-1\r\n",
            of_each(|n| {
                counted(&format!(
                    "<44>1 2026-01-31T12:00:00+00:00 host app web.1 - {}\n",
                    message(n)
                ))
            }),
            |payload, out| {
                let mut messages = logplex::Messages::of(payload);
                while messages.write_next(out).expect("a message") {}
            },
        ),
        http(
            "influx",
            "/write",
            "",
            of_each(|n| {
                format!("cpu,host=web1,core=c{n} value={n}.5 {}\n", 1_769_860_800_000_000_000 + n)
            }),
            |payload, out| {
                let mut points = Points::of(payload, 1);
                while points.write_next(out) {}
            },
        ),
        http(
            "remote-write",
            "/api/v1/write",
            "Content-Encoding: identity\r\nContent-Type: application/x-protobuf\r\n",
            remote_write(),
            |payload, out| {
                let mut samples = Samples::read(payload).expect("samples");
                while samples.write_next(out) {}
            },
        ),
        way("fluent", Carrier::Fluent, fluent(), |payload, out| {
            answered(Forward::new(None), &[payload], out);
        }),
        way("beats", Carrier::Beats, beats(), |payload, out| {
            answered(Lumberjack::default(), &[payload], out);
        }),
        way("relp", Carrier::Relp, relp(), |payload, out| {
            answered(Relp::default(), &[b"1 open 14 relp_version=0\n", payload], out);
        }),
    ]
}

/// The lines of a connection.
fn answered(mut protocol: impl Protocol, pieces: &[&[u8]], out: &mut Vec<u8>) {
    let mut input = Input::default();
    pieces.iter().for_each(|piece| input.push(piece));
    loop {
        let mut step = Output::default();
        let took = protocol.step(&mut input, &mut step);
        out.extend_from_slice(&step.lines);
        match took {
            Ok(Step::More) => {}
            Ok(Step::NeedsBytes | Step::End) => return,
            Err(_) => panic!("the payload is of another protocol"),
        }
    }
}

fn message(n: u64) -> String {
    format!(
        "GET /shop/cart/{n} HTTP/1.1 took {} ms for the customer {}",
        n % 977,
        n * 7919 % 100_003
    )
}

fn bare(n: u64) -> String {
    format!(
        "{{\"message\":\"{}\",\"level\":\"warn\",\"service\":\"shop\",\"status\":200,\"n\":{n}}}",
        message(n)
    )
}

fn json(n: u64) -> String {
    bare(n) + "\n"
}

fn gelf(n: u64) -> String {
    let text = message(n);
    format!(
        "{{\"version\":\"1.1\",\"host\":\"web1\",\"short_message\":\"{text}\",\"level\":4,\"_n\":{n}}}"
    )
}

fn of_each(text: impl Fn(u64) -> String) -> Vec<u8> {
    (0..LINES).map(text).collect::<String>().into_bytes()
}

fn of_each_bytes(bytes: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    (0..LINES).flat_map(bytes).collect()
}

fn list(text: impl Fn(u64) -> String) -> Vec<u8> {
    let items: Vec<_> = (0..LINES).map(text).collect();
    format!("[{}]", items.join(",")).into_bytes()
}

fn counted(text: &str) -> String {
    format!("{} {text}", text.len())
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// A field of protobuf with bytes, a text or a message.
fn field(number: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint(number << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn fixed64(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3 | 1), value.to_le_bytes().to_vec()].concat()
}

fn attribute(number: u64, name: &str, value: &str) -> Vec<u8> {
    field(number, [field(1, name), field(2, field(1, value))].concat())
}

fn otlp_protobuf() -> Vec<u8> {
    let record = |n: u64| {
        let parts = [
            fixed64(1, 1_769_860_800_000_000_000 + n),
            vec![0x10, 13],
            field(3, "WARN"),
            field(5, field(1, message(n))),
            attribute(6, "http.route", "/shop/cart"),
            attribute(6, "n", &n.to_string()),
            field(9, [7_u8; 16]),
            field(10, [9_u8; 8]),
        ];
        field(2, parts.concat())
    };
    let scope = [field(1, field(1, "shop.web")), of_each_bytes(record)].concat();
    let resource = field(1, attribute(1, "service.name", "shop"));
    field(1, [resource, field(2, scope)].concat())
}

fn otlp_json() -> Vec<u8> {
    let record = |n: u64| {
        format!(
            "{{\"timeUnixNano\":\"{}\",\"severityNumber\":13,\"severityText\":\"WARN\",\"body\":{{\"stringValue\":\"{}\"}},\
             \"attributes\":[{{\"key\":\"http.route\",\"value\":{{\"stringValue\":\"/shop/cart\"}}}},\
             {{\"key\":\"n\",\"value\":{{\"intValue\":\"{n}\"}}}}],\"traceId\":\"07070707070707070707070707070707\"}}",
            1_769_860_800_000_000_000 + n,
            message(n)
        )
    };
    let records = String::from_utf8(list(record)).expect("text");
    format!(
        "{{\"resourceLogs\":[{{\"resource\":{{\"attributes\":[{{\"key\":\"service.name\",\"value\":{{\"stringValue\":\"shop\"}}}}]}},\
         \"scopeLogs\":[{{\"scope\":{{\"name\":\"shop.web\"}},\"logRecords\":{records}}}]}}]}}"
    )
    .into_bytes()
}

fn otlp_metrics() -> Vec<u8> {
    let point = |n: u64| {
        format!(
            "{{\"timeUnixNano\":\"{}\",\"asDouble\":{n}.5,\"attributes\":[{{\"key\":\"core\",\"value\":{{\"stringValue\":\"c{n}\"}}}}]}}",
            1_769_860_800_000_000_000 + n
        )
    };
    let points = String::from_utf8(list(point)).expect("text");
    format!(
        "{{\"resourceMetrics\":[{{\"scopeMetrics\":[{{\"metrics\":[{{\"name\":\"cpu\",\"unit\":\"s\",\
         \"gauge\":{{\"dataPoints\":{points}}}}}]}}]}}]}}"
    )
    .into_bytes()
}

fn remote_write() -> Vec<u8> {
    of_each_bytes(|n| {
        let label = |name: &str, value: &str| field(1, [field(1, name), field(2, value)].concat());
        let value = [fixed64(1, (n as f64).to_bits()), vec![0x10], varint(1_769_860_800_000 + n)];
        let labels = [label("__name__", "cpu"), label("core", &format!("c{n}"))];
        field(1, [labels.concat(), field(2, value.concat())].concat())
    })
}

/// A row of VictoriaLogs' native format.
fn native_row(n: u64) -> Vec<u8> {
    let pairs = |pairs: &[(&str, &str)]| {
        let mut out = varint(pairs.len() as u64);
        for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
            out.extend(varint(text.len() as u64));
            out.extend_from_slice(text.as_bytes());
        }
        out
    };
    let tags = pairs(&[("app", "shop")]);
    let time = (1_769_860_800_000_000_000 + n).to_be_bytes();
    let (text, number) = (message(n), n.to_string());
    let fields = pairs(&[
        ("app", "shop"),
        ("_msg", text.as_str()),
        ("level", "warn"),
        ("n", number.as_str()),
    ]);
    [vec![0; 8], varint(tags.len() as u64), tags, time.to_vec(), fields].concat()
}

/// A packed forward of Fluent, which is not answered.
fn fluent() -> Vec<u8> {
    let text = |text: &str| {
        assert!(text.len() < 256);
        [&[0xd9, text.len() as u8], text.as_bytes()].concat()
    };
    let entries = of_each_bytes(|n| {
        let members = [("message", message(n)), ("level", "warn".into()), ("n", n.to_string())];
        let members = members.iter().flat_map(|(name, value)| [text(name), text(value)].concat());
        let time = 1_769_860_800_u32.to_be_bytes();
        [vec![0x92, 0xce], time.to_vec(), vec![0x83], members.collect()].concat()
    });
    let length = (entries.len() as u32).to_be_bytes();
    [vec![0x92], text("shop.web"), vec![0xc6], length.to_vec(), entries].concat()
}

fn beats() -> Vec<u8> {
    let event = |n: u64| {
        let event = bare(n).into_bytes();
        let (sequence, length) = ((n + 1) as u32, event.len() as u32);
        [b"2J".to_vec(), sequence.to_be_bytes().to_vec(), length.to_be_bytes().to_vec(), event]
            .concat()
    };
    [b"2W".to_vec(), (LINES as u32).to_be_bytes().to_vec(), of_each_bytes(event)].concat()
}

fn relp() -> Vec<u8> {
    let mut out = String::new();
    for n in 0..LINES {
        let line = format!("<12>1 2026-01-31T12:00:00Z web1 shop - - - {}\n", message(n));
        writeln!(out, "{} syslog {} {line}", n + 2, line.len()).expect("a text takes all");
    }
    out.into_bytes()
}
