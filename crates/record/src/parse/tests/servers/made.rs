//! A hundred lines of each kind, made by a generator with a seed. It writes each value both into
//! the line and into the list of what must be found, so it knows nothing of the parser.

mod programs;

use super::*;

const LINES: usize = 100;

/// A line that is being made.
struct Made {
    rng: fastrand::Rng,
    line: String,
    expected: Vec<(&'static str, String)>,
}

impl Made {
    /// Writes text that is no field.
    fn text(&mut self, text: &str) -> &mut Self {
        self.line.push_str(text);
        self
    }

    /// Writes the value of a field.
    fn value(&mut self, name: &'static str, value: impl ToString) -> &mut Self {
        let value = value.to_string();
        self.line.push_str(&value);
        self.expects(name, value)
    }

    /// Writes a value, or `-`, which is no field.
    fn value_or_nil(&mut self, name: &'static str, value: impl ToString) -> &mut Self {
        match self.rng.bool() {
            true => self.value(name, value),
            false => self.text("-"),
        }
    }

    fn expects(&mut self, name: &'static str, value: impl ToString) -> &mut Self {
        self.expected.push((name, value.to_string()));
        self
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.rng.usize(..of.len())]
    }

    fn number(&mut self, below: u32) -> String {
        self.rng.u32(..below).to_string()
    }

    fn seconds(&mut self) -> String {
        format!("{}.{:03}", self.rng.u32(..9), self.rng.u32(..1000))
    }

    fn ip(&mut self) -> String {
        match self.rng.u32(..5) {
            0 => format!("2001:db8::{:x}:{:x}", self.rng.u16(1..), self.rng.u16(1..)),
            _ => format!(
                "{}.{}.{}.{}",
                self.rng.u8(1..224),
                self.rng.u8(..),
                self.rng.u8(..),
                self.rng.u8(1..)
            ),
        }
    }

    fn ip4(&mut self) -> String {
        format!("198.51.{}.{}", self.rng.u8(..), self.rng.u8(1..))
    }

    fn port(&mut self) -> String {
        self.rng.u16(1..).to_string()
    }

    fn name(&mut self) -> &'static str {
        self.one(&["ada", "grace", "linus", "ken-t", "root", "svc_backup", "d.ritchie"])
    }

    fn host(&mut self) -> &'static str {
        self.one(&["shop.example", "api.shop.example", "intra.example.org", "a-1.example.net"])
    }

    fn path(&mut self) -> String {
        let leaf = self.one(&["cart", "item/7", "search?q=a+b&n=2", "", "img/a%20b.png", "api/v2"]);
        format!("/{leaf}")
    }

    fn agent(&mut self) -> &'static str {
        self.one(&[
            "curl/8.9.1",
            "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101",
            "Go-http-client/2.0",
        ])
    }

    fn hex(&mut self, digits: usize) -> String {
        (0..digits).map(|_| self.rng.digit(16)).collect()
    }

    fn clock(&mut self) -> String {
        format!("{:02}:{:02}:{:02}", self.rng.u8(..24), self.rng.u8(..60), self.rng.u8(..60))
    }

    /// A head of syslog without PRI, as files have it.
    fn head(&mut self, app: &str) -> &mut Self {
        let (day, clock, pid) = (self.rng.u8(1..21), self.clock(), self.rng.u32(1..40_000));
        let host = self.one(&["web1", "db-2", "gw.example.org"]);
        self.text(&format!("Nov {day:>2} {clock} {host} {app}[{pid}]: "))
    }

    fn request(&mut self) -> String {
        let method = self.one(&["GET", "POST", "DELETE"]);
        let (path, protocol) = (self.path(), self.one(&["HTTP/1.1", "HTTP/2.0"]));
        self.expects("method", method).expects("path", &path).expects("protocol", protocol);
        let request = format!("{method} {path} {protocol}");
        self.text(&request);
        request
    }
}

fn check_made(origin: &Origin, make: impl Fn(&mut Made)) {
    for seed in 0..LINES as u64 {
        let rng = fastrand::Rng::with_seed(seed);
        let mut made = Made { rng, line: String::new(), expected: Vec::new() };
        make(&mut made);
        let expected: Vec<_> =
            made.expected.iter().map(|(name, value)| (*name, value.as_str())).collect();
        check_own(origin, &made.line, &expected);
    }
}

fn access(made: &mut Made) {
    if made.rng.bool() {
        let host = format!("{}:443", made.host());
        made.value("vhost", host).text(" ");
    }
    let (ip, user, clock) = (made.ip(), made.name(), made.clock());
    made.value("client_ip", ip).text(" - ").value_or_nil("user", user);
    made.text(&format!(" [20/Nov/2026:{clock} +0100] \""));
    made.request();
    let (status, bytes) = (made.one(&["200", "304", "404", "503"]), made.number(90_000));
    made.text("\" ").value("status", status).text(" ").value("bytes", bytes);
    let (referer, agent) = (format!("https://{}/", made.host()), made.agent());
    made.text(" \"").value_or_nil("referer", referer).text("\" \"").value("user_agent", agent);
    made.text("\"");
}

#[test]
fn access_lines_with_tails() {
    check_made(&file(), |made| {
        access(made);
        let (total, upstream, ip) = (made.seconds(), made.seconds(), made.ip());
        match made.rng.u32(..8) {
            0 => made.text(" ").value("request_time", total),
            1 => {
                made.text(" ").value("request_time", total);
                made.text(" ").value("upstream_response_time", upstream)
            }
            2 => {
                made.text(" \"").value("http_x_forwarded_for", ip).text("\" rt=");
                made.value("request_time", total)
                    .text(" uct=\"")
                    .value_or_nil("upstream_connect_time", "0.001");
                made.text("\" uht=\"").value_or_nil("upstream_header_time", "0.002");
                made.text("\" urt=\"").value("upstream_response_time", upstream).text("\"")
            }
            3 => {
                made.text(" request_time=").value("request_time", total);
                made.text(" upstream_response_time=").value("upstream_response_time", upstream)
            }
            4 => {
                let micros = made.number(5_000_000);
                made.text(" ").value("request_time_us", micros)
            }
            5 => {
                let (length, sent, id) = (made.number(900), made.number(9_000), made.hex(32));
                made.text(" ")
                    .value("request_length", length)
                    .text(" ")
                    .value("request_time", total);
                made.text(" [").value("proxy_upstream_name", "shop-web-80").text("] [");
                made.value_or_nil("proxy_alternative_upstream_name", "b").text("] ");
                made.value("upstream_addr", "10.4.0.7:8080").text(" ");
                made.value("upstream_response_length", sent).text(" ");
                made.value("upstream_response_time", upstream).text(" ");
                made.value("upstream_status", "200").text(" ").value("req_id", id)
            }
            6 => {
                let (received, sent) = (made.number(900), made.number(90_000));
                made.text(" ").value("bytes_received", received).text(" ").value("bytes_sent", sent)
            }
            _ => {
                let (count, ms) = (made.number(90_000), made.number(900));
                made.text(" ")
                    .value("request_count", count)
                    .text(" \"")
                    .value("router_name", "web@docker");
                made.text("\" \"").value("service_url", "http://10.0.0.5:80").text("\" ");
                made.value("duration", format!("{ms}ms"))
            }
        };
    });
}

#[test]
fn nginx_errors() {
    check_made(&file(), |made| {
        let (clock, level) = (made.clock(), made.one(&["error", "warn", "crit", "notice", "info"]));
        let (pid, tid, number) = (made.number(90_000), made.number(64), made.number(99_999));
        made.text(&format!("2026/11/20 {clock} [")).value("level", level).text("] ");
        made.value("pid", pid).text("#").value("tid", tid).text(": ");
        if made.rng.u32(..5) == 0 {
            made.text("signal process started");
            return;
        }
        made.text("*").value("connection", number).text(" ");
        let what = made.one(&[
            "open() \"/srv/www/a b.html\" failed (2: No such file or directory)",
            "upstream timed out (110: Connection timed out) while reading response header from upstream",
            "directory index of \"/srv/\" is forbidden",
            "open() \"/srv/x, client: 203.0.113.9, server: y\" failed (2: No such file or directory)",
        ]);
        let (client, server) = (made.ip(), made.one(&["shop.example", "_", "localhost"]));
        made.text(what).text(", client: ").value("client", client);
        made.text(", server: ").value("server", server);
        let request = format!("GET {} HTTP/1.1", made.path());
        made.text(", request: \"").value("request", request).text("\"");
        if made.rng.bool() {
            made.text(", upstream: \"").value("upstream", "http://10.0.0.9:8080/cart").text("\"");
        }
        let host = made.host();
        made.text(", host: \"").value("host", host).text("\"");
        if made.rng.bool() {
            let referrer = format!("https://{host}/");
            made.text(", referrer: \"").value("referrer", referrer).text("\"");
        }
    });
}

#[test]
fn apache_errors() {
    check_made(&file(), |made| {
        let clock = made.clock();
        let level = made.one(&["error", "warn", "notice", "trace3", "crit", "emerg"]);
        let (pid, ip, port) = (made.number(90_000), made.ip4(), made.port());
        if made.rng.u32(..4) == 0 {
            // Before 2.4.
            made.text(&format!("[Fri Nov 20 {clock} 2026] ["))
                .value("level", level)
                .text("] [client ");
            made.value("client", ip).text("] File does not exist: /srv/www/favicon.ico");
            return;
        }
        let module = made.one(&["core", "proxy_http", "mpm_event", "authz_core", "ssl"]);
        made.text(&format!("[Fri Nov 20 {clock}.123456 2026] [")).value("module", module).text(":");
        made.value("level", level).text("] [pid ").value("pid", pid);
        if made.rng.bool() {
            made.text(":tid ").value("tid", "140012345678");
        }
        made.text("] ");
        if made.rng.bool() {
            made.text("(111)Connection refused: ");
        }
        made.text("[client ");
        made.value("client", ip).text(":").value("client_port", port).text("] ");
        let code = format!("AH{:05}", made.rng.u32(..99_999));
        made.value("code", code).text(": something about ").text("/srv/www/index.php");
        if made.rng.bool() {
            made.text(", referer: ").value("referer", "https://shop.example/a?b=c, d");
        }
    });
}

fn haproxy_head(made: &mut Made) {
    made.head("haproxy");
    let (ip, port, clock) = (made.ip(), made.port(), made.clock());
    made.value("client_ip", ip).text(":").value("client_port", port);
    made.text(&format!(" [20/Nov/2026:{clock}.250] "));
    let frontend = made.one(&["www~", "http-in", "fe_shop"]);
    let (backend, server) =
        (made.one(&["be_shop", "static"]), made.one(&["srv1", "<NOSRV>", "w-2"]));
    made.value("frontend", frontend).text(" ").value("backend", backend).text("/");
    made.value("server", server).text(" ");
}

fn numbers(made: &mut Made, names: &[&'static str]) {
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            made.text("/");
        }
        let number = match made.rng.u32(..6) {
            0 => "-1".to_owned(),
            _ => made.number(3000),
        };
        made.value(name, number);
    }
}

#[test]
fn haproxy() {
    let connections = ["actconn", "feconn", "beconn", "srv_conn", "retries"];
    check_made(&file(), |made| {
        haproxy_head(made);
        numbers(
            made,
            &["time_request", "time_queue", "time_connect", "time_response", "time_total"],
        );
        let (status, bytes) = (made.one(&["200", "503", "404", "-1"]), made.number(90_000));
        made.text(" ").value("status", status).text(" ").value("bytes", bytes).text(" ");
        made.value_or_nil("request_cookie", "SID=a1")
            .text(" ")
            .value_or_nil("response_cookie", "SID=b2");
        let state = made.one(&["----", "sH--", "SC--", "PR--"]);
        made.text(" ").value("termination_state", state).text(" ");
        numbers(made, &connections);
        made.text(" ");
        numbers(made, &["srv_queue", "backend_queue"]);
        if made.rng.bool() {
            made.text(" {").value("request_headers", "shop.example|curl/8").text("}");
            made.text(" {").value("response_headers", "text/html").text("}");
        }
        made.text(" \"");
        match made.rng.u32(..5) {
            0 => {
                made.value("request", "<BADREQ>");
            }
            _ => {
                let request = made.request();
                made.expects("request", request);
            }
        }
        made.text("\"");
    });
    check_made(&file(), |made| {
        haproxy_head(made);
        numbers(made, &["time_queue", "time_connect", "time_total"]);
        let (bytes, state) = (made.number(90_000), made.one(&["--", "CD", "sD", "SC"]));
        made.text(" ").value("bytes", bytes).text(" ").value("termination_state", state).text(" ");
        numbers(made, &connections);
        made.text(" ");
        numbers(made, &["srv_queue", "backend_queue"]);
    });
}

#[test]
fn iis() {
    check_made(&file(), |made| {
        let (clock, ip) = (made.clock(), made.ip());
        made.text(&format!("2026-11-20 {clock} "));
        let kind = made.rng.u32(..4);
        if kind >= 2 {
            made.value("site_name", "W3SVC1").text(" ");
        }
        if kind == 3 {
            made.value("server", "WEB01").text(" ");
        }
        let (method, port) = (made.one(&["GET", "POST", "HEAD"]), made.one(&["80", "443"]));
        made.value("server_ip", "192.0.2.80").text(" ").value("method", method).text(" ");
        made.value("path", "/shop/cart.aspx").text(" ").value_or_nil("query", "id=7&x=%20");
        made.text(" ").value("server_port", port).text(" ").value_or_nil("user", "SHOP\\ada");
        made.text(" ").value("client_ip", ip).text(" ");
        if kind == 3 {
            made.value("protocol", "HTTP/1.1").text(" ");
        }
        made.value("user_agent", "Mozilla/5.0+(Windows+NT+10.0)").text(" ");
        if kind == 3 {
            made.value_or_nil("cookie", "sid=1").text(" ");
        }
        if kind == 0 || kind == 3 {
            made.value_or_nil("referer", "https://shop.example/").text(" ");
        }
        if kind == 3 {
            made.value("host", "shop.example").text(" ");
        }
        let (status, taken, sub) =
            (made.one(&["200", "404", "500"]), made.number(9000), made.number(9));
        made.value("status", status).text(" ").value("substatus", sub).text(" ");
        made.value("win32_status", "0");
        if kind == 3 {
            let (sent, received) = (made.number(90_000), made.number(900));
            made.text(" ").value("bytes", sent).text(" ").value("bytes_received", received);
        }
        if kind != 2 {
            made.text(" ").value("time_taken", taken);
        }
    });
}

#[test]
fn squid() {
    check_made(&file(), |made| {
        let second = 1_795_000_000 + made.rng.u32(..9999);
        let elapsed = made.rng.u32(..9_000);
        let ip = made.ip();
        made.text(&format!("{second}.{:03} ", elapsed % 1000));
        made.line.push_str(&" ".repeat(6 - elapsed.to_string().len()));
        made.value("elapsed", elapsed).text(" ").value("client_ip", ip).text(" ");
        let code = made.one(&["TCP_MISS", "TCP_HIT", "TCP_DENIED", "TCP_TUNNEL", "NONE"]);
        let (status, bytes) = (made.one(&["200", "403", "503"]), made.number(90_000));
        made.value("result_code", code).text("/").value("status", status).text(" ");
        made.value("bytes", bytes).text(" ");
        let method = made.one(&["GET", "CONNECT"]);
        let path = match method {
            "CONNECT" => format!("{}:443", made.host()),
            _ => format!("http://{}{}", made.host(), made.path()),
        };
        let user = made.name();
        made.value("method", method).text(" ").value("path", path).text(" ");
        made.value_or_nil("user", user).text(" ");
        let code = made.one(&["HIER_DIRECT", "HIER_NONE", "FIRSTUP_PARENT"]);
        made.value("hierarchy_code", code).text("/").value_or_nil("peer", "203.0.113.80").text(" ");
        made.value_or_nil("content_type", "text/html");
    });
}

#[test]
fn load_balancers_of_aws() {
    check_made(&file(), |made| {
        let is_classic = made.rng.u32(..3) == 0;
        if !is_classic {
            let scheme = made.one(&["http", "https", "h2", "ws", "grpcs"]);
            made.value("type", scheme).text(" ");
        }
        let (clock, ip, port) = (made.clock(), made.ip4(), made.port());
        made.text(&format!("2026-11-20T{clock}.186641Z "));
        made.value("elb", if is_classic { "shop-lb" } else { "app/shop/50dc6c495c0c9188" })
            .text(" ");
        made.value("client_ip", ip).text(":").value("client_port", port).text(" ");
        match made.rng.bool() {
            true => made.value("target_ip", "10.0.3.4").text(":").value("target_port", "8080"),
            false => made.text("-"),
        };
        for name in
            ["request_processing_time", "target_processing_time", "response_processing_time"]
        {
            let time = if made.rng.u32(..5) == 0 { "-1".to_owned() } else { made.seconds() };
            made.text(" ").value(name, time);
        }
        let (status, received, sent) =
            (made.one(&["200", "502", "404"]), made.number(900), made.number(9000));
        made.text(" ").value("status", status).text(" ").value_or_nil("target_status_code", "200");
        made.text(" ").value("received_bytes", received).text(" ").value("bytes", sent);
        let path = format!("https://shop.example:443{}", made.path());
        made.expects("method", "GET").expects("path", &path).expects("protocol", "HTTP/2.0");
        let agent = made.agent();
        made.text(&format!(" \"GET {path} HTTP/2.0\" \"")).value("user_agent", agent).text("\" ");
        made.value_or_nil("ssl_cipher", "ECDHE-RSA-AES128-GCM-SHA256").text(" ");
        made.value_or_nil("ssl_protocol", "TLSv1.2");
        if is_classic {
            return;
        }
        made.text(" ").value(
            "target_group_arn",
            "arn:aws:elasticloadbalancing:eu-central-1:123:targetgroup/a/1",
        );
        made.text(" \"")
            .value("trace_id", "Root=1-58337262-36d228ad5d99923122bbe354")
            .text("\" \"");
        made.value_or_nil("domain_name", "shop.example")
            .text("\" \"")
            .value_or_nil("chosen_cert_arn", "arn:x");
        made.text("\" ").value("matched_rule_priority", "1").text(" ");
        made.value("request_creation_time", "2026-11-20T12:00:00.123000Z").text(" \"");
        made.value("actions_executed", "waf,forward")
            .text("\" \"")
            .value_or_nil("redirect_url", "https://b/");
        made.text("\" \"").value_or_nil("error_reason", "LambdaInvalidResponse").text("\" \"");
        made.value("target_port_list", "10.0.3.4:8080")
            .text("\" \"")
            .value("target_status_code_list", "200");
        made.text("\" \"-\" \"-\" ").value("conn_trace_id", "TID_1234abcd");
    });
}

#[test]
fn flow_logs_of_aws() {
    check_made(&file(), |made| {
        let (from, to, sport, dport) = (made.ip4(), made.ip4(), made.port(), made.port());
        let start = 1_795_000_000 + made.rng.u32(..9999);
        made.value("version", "2").text(" ").value("account_id", "123456789010").text(" ");
        made.value("interface_id", "eni-0a1b2c3d4e5f67890").text(" ");
        if made.rng.u32(..5) == 0 {
            made.text("- - - - - - - ").value("start", start).text(" ").value("end", start + 60);
            made.text(" - ").value("log_status", "NODATA");
            return;
        }
        made.value("srcaddr", from).text(" ").value("dstaddr", to).text(" ");
        made.value("srcport", sport).text(" ").value("dstport", dport).text(" ");
        let (protocol, packets, bytes) =
            (made.one(&["6", "17", "1"]), made.number(99), made.number(90_000));
        made.value("protocol", protocol).text(" ").value("packets", packets).text(" ");
        made.value("bytes", bytes)
            .text(" ")
            .value("start", start)
            .text(" ")
            .value("end", start + 60);
        let action = made.one(&["ACCEPT", "REJECT"]);
        made.text(" ").value("action", action).text(" ").value("log_status", "OK");
    });
}
