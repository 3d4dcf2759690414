//! Fields of the lines of common servers, recognised without configuration: nginx, Apache, HAProxy,
//! IIS, Squid, load balancers and flow logs of AWS, Check Point, auditd, sshd, sudo, PostgreSQL, Redis, BIND,
//! Postfix, klog, netfilter, systemd. Access lines, CEF, LEEF, JSON and pairs are parsed elsewhere;
//! only what follows an access line is taken apart here.
//!
//! Decisions:
//! - The program of the head, or the first bytes, select one parser ([`find`]); a message is never
//!   tried against one after the other.
//! - A message that does not fit its parser to the end gives no field, as if nothing was recognised:
//!   a misread value is worse than none. It stays in `_msg` in any case.
//! - A value is a part of the message, or one of few words that `docs/sources.md` lists. A part that
//!   the server writes as `-` is not present.
//! - Names are those of access lines (`client_ip`, `status`) where the meaning is the same, and else
//!   those of the server's documentation. Names that lines get from their head (`hostname`) are never
//!   given, so streams stay the same: a key of that name gets a prefix, as `audit.hostname`.
//!
//! Left out: settings of other formats, the value of `#Fields` of IIS (a line is parsed alone, so
//! that it gives the same record in any order), and text in objects, except in those of Docker.

mod access_tail;
mod audit;
mod aws;
mod bind;
mod check_point;
mod errors;
mod haproxy;
mod iis;
mod klog;
mod login;
mod netfilter;
mod postfix;
mod postgres;
mod redis;
mod squid;
mod systemd;
mod words;

pub(crate) use access_tail::find as find_access_tail;
pub(crate) use check_point::is_pairs as is_check_point;

use super::row;
use super::time::Written;

/// Fields of one message. A message with more gives none.
const FIELDS_MAX: usize = 64;
/// Length of a key that becomes a name. A message with a longer one gives no fields.
const KEY_BYTES_MAX: usize = 40;

macro_rules! names {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// The names that this module gives fields.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Name { $($variant),+ }
        const NAMES: &[&str] = &[$($name),+];
    };
}

names! {
    Actconn = "actconn", ActionsExecuted = "actions_executed",
    AccountId = "account_id", Action = "action", App = "app", Backend = "backend",
    BackendQueue = "backend_queue", Beconn = "beconn", Bytes = "bytes",
    BytesReceived = "bytes_received", BytesSent = "bytes_sent", ChosenCertArn = "chosen_cert_arn",
    Classification = "classification", ClassificationReason = "classification_reason",
    Client = "client", ClientIp = "client_ip", ClientPort = "client_port", Code = "code",
    Command = "command", Connection = "connection", ConnTraceId = "conn_trace_id",
    ContentType = "content_type", Cookie = "cookie", CpuTime = "cpu_time", Db = "db",
    Delay = "delay", Delays = "delays", Domain = "domain_name", Dsn = "dsn",
    Dstaddr = "dstaddr", Dstport = "dstport", Duration = "duration", Elapsed = "elapsed",
    Elb = "elb", End = "end", ErrorReason = "error_reason", EventId = "event_id",
    ExitCode = "exit_code", ExitStatus = "exit_status", Feconn = "feconn", File = "file",
    Fingerprint = "fingerprint", From = "from", Frontend = "frontend", Group = "group",
    Helo = "helo", HierarchyCode = "hierarchy_code", Host = "host", InterfaceId = "interface_id",
    KeyType = "key_type", Level = "level", Line = "line", LogStatus = "log_status",
    MatchedRulePriority = "matched_rule_priority", MessageId = "message_id", Method = "method",
    Module = "module", Nrcpt = "nrcpt", OrigTo = "orig_to", Packets = "packets", Path = "path",
    Peer = "peer", Pid = "pid", Prefix = "prefix", Proto = "proto", Protocol = "protocol",
    Pwd = "pwd", Query = "query", QueryClass = "query_class", QueryFlags = "query_flags",
    Queried = "query_name", QueryType = "query_type", QueueId = "queue_id", Reason = "reason",
    ReceivedBytes = "received_bytes", RedirectUrl = "redirect_url", Referer = "referer",
    Referrer = "referrer", Relay = "relay", ReplyCode = "reply_code", ReqId = "req_id",
    Request = "request", RequestCookie = "request_cookie", RequestCount = "request_count",
    RequestCreationTime = "request_creation_time", RequestHeaders = "request_headers",
    RequestLength = "request_length", RequestProcessingTime = "request_processing_time",
    RequestTime = "request_time", RequestTimeUs = "request_time_us",
    ResponseCookie = "response_cookie", ResponseHeaders = "response_headers",
    ResponseProcessingTime = "response_processing_time", Restarts = "restarts",
    Result = "result", ResultCode = "result_code", Retries = "retries", Role = "role",
    Router = "router_name", RunUser = "run_user", SaslMethod = "sasl_method",
    SaslSender = "sasl_sender", SaslUsername = "sasl_username", Sender = "sender",
    Server = "server", ServerIp = "server_ip", ServerPort = "server_port",
    ServiceUrl = "service_url", Signal = "signal", Site = "site_name", Size = "size",
    Sqlstate = "sqlstate", Srcaddr = "srcaddr", Srcport = "srcport", SrvConn = "srv_conn",
    SrvQueue = "srv_queue", SslCipher = "ssl_cipher", SslProtocol = "ssl_protocol",
    Start = "start", Status = "status", Subrequest = "subrequest", Substatus = "substatus",
    TargetGroupArn = "target_group_arn", TargetIp = "target_ip", TargetPort = "target_port",
    TargetPortList = "target_port_list", TargetProcessingTime = "target_processing_time",
    TargetStatusCode = "target_status_code", TargetStatusCodeList = "target_status_code_list",
    TcpFlags = "tcp_flags", TerminationState = "termination_state", Tid = "tid",
    TimeConnect = "time_connect", TimeQueue = "time_queue", TimeRequest = "time_request",
    TimeResponse = "time_response", TimeTaken = "time_taken", TimeTotal = "time_total", To = "to",
    TraceId = "trace_id", Tty = "tty", Type = "type", Uid = "uid", Unit = "unit",
    Upstream = "upstream", UpstreamAddr = "upstream_addr",
    UpstreamConnectTime = "upstream_connect_time", UpstreamHeaderTime = "upstream_header_time",
    IngressUpstream = "proxy_upstream_name", IngressAlternative = "proxy_alternative_upstream_name",
    UpstreamCacheStatus = "upstream_cache_status",
    UpstreamResponseLength = "upstream_response_length",
    UpstreamResponseTime = "upstream_response_time", UpstreamStatus = "upstream_status",
    User = "user", UserAgent = "user_agent", Version = "version", View = "view",
    Win32Status = "win32_status", XForwardedFor = "http_x_forwarded_for",
}

/// How many names there are.
pub(crate) const NAMES_COUNT: usize = NAMES.len();

impl Name {
    pub fn text(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// The program that a head names, as far as it decides how the message is parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Program {
    /// No head, or a program without a parser of its own: the first bytes decide.
    #[default]
    Other,
    /// Nothing is recognised: a setting says so.
    Off,
    Haproxy,
    Kernel,
    Login,
    Named,
    Postfix,
    Postgres,
    Sudo,
    Systemd,
}

impl Program {
    /// The program with the name `app_name`.
    #[inline]
    pub fn of(app_name: &[u8]) -> Program {
        match app_name {
            b"haproxy" => Program::Haproxy,
            b"kernel" | b"ulogd" => Program::Kernel,
            b"sshd" | b"sshd-session" | b"sshd-auth" | b"dropbear" => Program::Login,
            b"named" => Program::Named,
            b"postgres" | b"postgresql" => Program::Postgres,
            b"sudo" => Program::Sudo,
            b"systemd" => Program::Systemd,
            [b'p', b'o', b's', b't', b'f', b'i', b'x', b'/' | b'-', ..] => Program::Postfix,
            _ => Program::Other,
        }
    }
}

/// Finds the fields of a message; returns whether there are any.
#[inline]
pub(crate) fn find(message: &[u8], program: Program, found: &mut Found) -> bool {
    let parser: Parse = match program {
        Program::Off => return false,
        Program::Other => match of_first_bytes(message) {
            Some(parser) => parser,
            None => return false,
        },
        Program::Haproxy => haproxy::parse,
        Program::Kernel => kernel,
        Program::Login => login::sshd,
        Program::Named => bind::parse,
        Program::Postfix => postfix::parse,
        Program::Postgres => postgres::parse,
        Program::Sudo => login::sudo,
        Program::Systemd => systemd::parse,
    };
    run(parser, message, found)
}

fn run(parser: Parse, message: &[u8], found: &mut Found) -> bool {
    found.begin(message);
    let whole = parser(message, found).is_some() && !found.overflowed;
    whole && (!found.fields.is_empty() || found.written.is_some())
}

/// A parser of messages of one program: `None` if the message is not one of them.
type Parse = for<'a> fn(&'a [u8], &mut Found) -> Option<()>;

/// The parser for a message that begins with these bytes.
#[inline]
fn of_first_bytes(message: &[u8]) -> Option<Parse> {
    match message.first()? {
        b'0'..=b'9' => of_digits(message),
        b'[' => match message {
            // `[Sat Jan 31 `
            [_, _, _, _, b' ', _, _, _, b' ', ..] => Some(errors::apache),
            _ if is_check_point(message) => Some(check_point::parse),
            _ => Some(netfilter::parse),
        },
        b'I' if message.starts_with(b"IN=") => Some(netfilter::parse),
        b'I' | b'W' | b'E' | b'F' if message.get(1)?.is_ascii_digit() => Some(klog::parse),
        b't' if message.starts_with(b"type=") => Some(audit::parse),
        b'n' if message.starts_with(b"node=") => Some(audit::parse),
        b'a' if message.starts_with(b"audit: ") => Some(audit::parse),
        b'h' | b'w' | b'g' => match message {
            [b'h', b't', b't', b'p', b' ', ..]
            | [b'h', b't', b't', b'p', b's', b' ', ..]
            | [b'h', b'2', b' ', ..]
            | [b'w', b's', b' ', ..]
            | [b'w', b's', b's', b' ', ..]
            | [b'g', b'r', b'p', b'c', b's', b' ', ..] => Some(aws::application_balancer),
            _ => None,
        },
        b'c' if message.starts_with(b"client ") => Some(bind::parse),
        _ => None,
    }
}

fn of_digits(message: &[u8]) -> Option<Parse> {
    let m = message.first_chunk::<24>()?;
    match (m[4], m[10]) {
        (b'/', b' ') => return (m[20] == b'[').then_some(errors::nginx as Parse),
        (b'-', b'T') => return Some(aws::classic_balancer),
        (b'-', b' ') => {
            return match (m[19], m[20]) {
                (b' ', b'0'..=b'9' | b'W' | b':' | b'a'..=b'f') => Some(iis::parse),
                (b' ', b'A'..=b'Z' | b'+' | b'-') => Some(postgres::parse),
                // `2026-01-31 12:00:00.250 UTC`
                (b'.', _) => (m[23] == b' ').then_some(postgres::parse as Parse),
                _ => None,
            };
        }
        (_, b'.') if m[..10].iter().all(u8::is_ascii_digit) => return Some(squid::parse),
        _ => {}
    }
    match m {
        [b'2', b' ', ..] => Some(aws::flow),
        [_, _, b'-', _, _, _, b'-', ..] => Some(bind::parse),
        _ => {
            // `1234:M `, `192.0.2.1:55876 [`
            let blank = super::short::first_blank(message)?;
            match (message[blank - 1], message.get(blank + 1)?) {
                (b'M' | b'S' | b'C' | b'X', _) => Some(redis::parse),
                (b'0'..=b'9', b'[') => Some(haproxy::parse),
                _ => None,
            }
        }
    }
}

/// Messages of the kernel: packets, and records of auditd without its daemon.
fn kernel(message: &[u8], found: &mut Found) -> Option<()> {
    let text = words::behind_uptime(message);
    match text.starts_with(b"audit: ") {
        true => audit::parse(text, found),
        false => netfilter::parse(message, found),
    }
}

/// A value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Offset and length in the message.
    Part(u32, u32),
    Word(&'static str),
}

/// A name of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Known(Name),
    /// A key of the message: its offset and length. Letters, digits, `_`, `-` and points.
    OfLine(u32, u32),
    /// The same, where lines get a field of this name from their head.
    Prefixed(u32, u32),
}

/// The fields found in a message, in the order of the message. Of several with one name the first
/// counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    begin: usize,
    /// The prefix of [`Key::Prefixed`].
    pub prefix: &'static str,
    pub fields: Vec<(Key, Value)>,
    /// The time, if the message states one that other parts of the parser do not know.
    pub written: Option<Written>,
    /// The level, if it follows from a field.
    pub level: Option<&'static str>,
    overflowed: bool,
}

impl Found {
    fn begin(&mut self, message: &[u8]) {
        self.begin = message.as_ptr().addr();
        self.fields.clear();
        self.written = None;
        self.level = None;
        self.overflowed = false;
    }

    fn push(&mut self, key: Key, value: Value) {
        if self.fields.len() >= FIELDS_MAX {
            self.overflowed = true;
            return;
        }
        self.fields.push((key, value));
    }

    fn part(&self, part: &[u8]) -> (u32, u32) {
        ((part.as_ptr().addr() - self.begin) as u32, part.len() as u32)
    }

    /// Adds a part of the message, unless it is empty or `-`.
    fn put(&mut self, name: Name, part: &[u8]) {
        if !part.is_empty() && part != b"-" {
            let (at, length) = self.part(part);
            self.push(Key::Known(name), Value::Part(at, length));
        }
    }

    /// Adds one of few words.
    fn put_word(&mut self, name: Name, word: &'static str) {
        self.push(Key::Known(name), Value::Word(word));
    }

    /// Adds a pair of the message, unless its value is empty. `None` if the key is no name, or there
    /// are too many.
    fn put_pair(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let is_of_key = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let is_name = key.first().is_some_and(u8::is_ascii_alphabetic)
            && key.len() <= KEY_BYTES_MAX
            && key.iter().all(is_of_key);
        is_name.then_some(())?;
        if value.is_empty() {
            return Some(());
        }
        (self.fields.len() < FIELDS_MAX).then_some(())?;
        let (at, length) = self.part(key);
        let key =
            if Self::is_of_head(key) { Key::Prefixed(at, length) } else { Key::OfLine(at, length) };
        let (at, length) = self.part(value);
        self.push(key, Value::Part(at, length));
        Some(())
    }

    /// Whether lines may get a field of this name from their head.
    fn is_of_head(key: &[u8]) -> bool {
        let all = row::GivenFields { head: true, sender: true, file: true };
        key == b"level" || std::str::from_utf8(key).is_ok_and(|name| row::is_given(name, all))
    }

    /// Adds the parts of a request: `GET /x HTTP/1.1`.
    fn put_request(&mut self, request: &[u8]) {
        let mut parts = super::access::Access::default();
        super::access::split_request(request, &mut parts);
        self.put(Name::Method, parts.method);
        self.put(Name::Path, parts.path);
        self.put(Name::Protocol, parts.protocol);
        self.put(Name::Request, parts.request);
    }

    /// Adds the status of an answer, from which the level follows as for access lines.
    fn put_status(&mut self, status: &[u8]) {
        self.put(Name::Status, status);
        self.level = Some(super::level::from_status(status));
    }
}
