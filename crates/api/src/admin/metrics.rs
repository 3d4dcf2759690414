//! `/metrics`: all counters, in the text format of Prometheus. `docs/metrics.md` describes each.
//!
//! All pairs of source and reason are always present, so that a rate over a counter begins at zero
//! and an alert can be written before the first loss.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use axum::extract;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use collector::kafka::{KafkaStatus, TopicStatus};
use collector::node::Forward;
use collector::{Accounting, DropCounts, DropReason, SourceCounts, SourceKind, TlsStatus};
use platform::memory::{Budget, Purpose};
use query::QueryState;
use store::{StoreState, StoreStats};

use crate::access::audit_log::AuditLog;
use crate::access::gate::{Gate, Refused};
use crate::access::guard::{Guard, Reason};
use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::listen::{Clients, Tls};
use crate::wire::metrics::Text;
use node::cluster::StoreLacks;
use node::process::{open_files, usage};
use node::storage::backup::schedule::Counts;

/// Dashboards that were sent by mail.
fn mails(app: &App, out: &mut Text) {
    out.head(
        "loginson_dashboard_mails_total",
        "counter",
        "Dashboards by mail: taken by a mail server, attempts that failed, and due ones given up.",
    );
    let counts = [
        ("sent", &app.mails.sent),
        ("failed", &app.mails.failed_attempts),
        ("given_up", &app.mails.given_up),
    ];
    for (result, count) in counts {
        let value = count.load(Relaxed);
        out.sample("loginson_dashboard_mails_total", &[("result", result)], value);
    }
}

/// The media type of the response.
pub const CONTENT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().get(Scope::ReadAll, "/metrics", metrics)
}

async fn metrics(extract::State(app): extract::State<Arc<App>>) -> Response {
    let lacks = match app.cluster() {
        Some(cluster) if cluster.copies().len() > 1 => {
            let lacks = tokio::task::spawn_blocking(move || cluster.lacks()).await;
            lacks.unwrap_or_default()
        }
        _ => Vec::new(),
    };
    ([(CONTENT_TYPE, CONTENT)], text(&app, &lacks)).into_response()
}

fn text(app: &App, lacks: &[StoreLacks]) -> String {
    let mut out = Text::default();
    process(app.started_ns, &mut out);
    out.one(
        "loginson_ready",
        "gauge",
        "1 while the server accepts lines and answers queries.",
        &[],
        u8::from(crate::admin::status::is_ready(app)),
    );
    ingest(&app.accounting, &mut out);
    queries(app, &mut out);
    if let Some(pipeline) = app.pipeline_seen() {
        let lag = pipeline.parsing.lag_lines();
        out.one(
            "loginson_parse_lag_lines",
            "gauge",
            "Durable lines that are not parsed yet.",
            &[],
            lag,
        );
        out.one(
            "loginson_parse_panics_total",
            "counter",
            "Frames whose parsing panicked because of a bug.",
            &[],
            pipeline.parsing.panics() + pipeline.summary.panics(),
        );
        out.one(
            "loginson_stage_panics_total",
            "counter",
            "Panics of the stages parse, summary and programs outside frames, because of a bug; the stages restart.",
            &[],
            pipeline.stages.panics(),
        );
        out.one(
            "loginson_parse_failures_total",
            "counter",
            "Frames that could not be read for parsing: damaged, or the disk failed.",
            &[],
            pipeline.parsing.failures(),
        );
        if let Some(work) = pipeline.work() {
            crate::programs::metrics::text(&work.programs, &mut out);
            crate::sinks::metrics(&work.sinks, &mut out);
            crate::alerts::metrics::text(&work.alerts, &mut out);
            crate::stands_out::metrics(&work.watch, &mut out);
        }
        crate::rules::metrics(&pipeline.rules.now(), &mut out);
        mails(app, &mut out);
        crate::admin::tenants::metrics(&pipeline, &mut out);
        files(
            pipeline.sources().files(collector::FileSource::totals).unwrap_or_default(),
            &mut out,
        );
        kafka(&pipeline.sources().kafka(), &mut out);
        store(&pipeline, &mut out);
        if let Some(backups) = &pipeline.backups {
            sent_backups(&backups.counts(), &mut out);
        }
        if let Some(integrity) = &pipeline.integrity {
            chain(integrity.counts(), &mut out);
        }
        if let Some(forwarder) = &pipeline.forwarder {
            crate::admin::forwarding::metrics(&forwarder.status(), &mut out);
        }
        if let Some(engines) = app.engines() {
            crate::admin::cluster_metrics::text(&engines, &mut out);
        }
        crate::admin::cluster_metrics::lacks(lacks, &mut out);
        if let Some(credentials) = pipeline.sources().credentials() {
            tls(&credentials.status(), &mut out);
        }
    }
    out.into_text()
}

/// Backups that are sent elsewhere. Without a good one there is no age.
fn sent_backups(counts: &Counts, out: &mut Text) {
    if let Some(last_ns) = counts.last_ns {
        let age_s = (crate::wire::clock::now_ns() - last_ns).max(0) / 1_000_000_000;
        out.one(
            "loginson_backup_age_seconds",
            "gauge",
            "Age of the newest backup that was sent to the destination of [backup].",
            &[],
            age_s,
        );
    }
    for (name, help, value) in [
        ("loginson_backups_sent_total", "Backups that were sent.", counts.made),
        ("loginson_backups_failed_total", "Attempts to send a backup that failed.", counts.failed),
        (
            "loginson_backup_sent_bytes_total",
            "Bytes that were sent for backups; what the destination has is not sent again.",
            counts.bytes_sent,
        ),
    ] {
        out.one(name, "counter", help, &[], value);
    }
}

/// The chain of sealed segments.
fn chain((links, failures, signed_ns): (u64, u64, i64), out: &mut Text) {
    out.one("loginson_chain_links_total", "counter", "Links added to the chain.", &[], links);
    out.one(
        "loginson_chain_failures_total",
        "counter",
        "Failures to write or sign the chain, or to write a head to the second place.",
        &[],
        failures,
    );
    if signed_ns > 0 {
        out.one(
            "loginson_chain_signed_age_seconds",
            "gauge",
            "Time since the chain was signed last; it is signed when it grew.",
            &[],
            (crate::wire::clock::now_ns() - signed_ns).max(0) / 1_000_000_000,
        );
    }
}

/// Files that are followed.
pub fn files(totals: collector::file::FileTotals, out: &mut Text) {
    for (name, kind, help, value) in [
        ("loginson_files_followed", "gauge", "Files that are followed.", totals.followed),
        ("loginson_files_open", "gauge", "Of those, the ones that are open.", totals.open),
        (
            "loginson_files_unreadable",
            "gauge",
            "Files and directories that cannot be read.",
            totals.unreadable,
        ),
        (
            "loginson_files_lag_bytes",
            "gauge",
            "Bytes of the files that are not durable yet.",
            totals.lag_bytes,
        ),
        (
            "loginson_files_records_cut_total",
            "counter",
            "Records split because they were too long.",
            totals.records_cut,
        ),
        (
            "loginson_files_truncations_total",
            "counter",
            "Times that a file was found truncated.",
            totals.truncations,
        ),
        (
            "loginson_files_bytes_lost_total",
            "counter",
            "Bytes that were truncated or deleted before they were read.",
            totals.bytes_lost,
        ),
        (
            "loginson_files_checkpoint_errors_total",
            "counter",
            "Failed writes of the checkpoint, which records how far files are read.",
            totals.checkpoints_failed,
        ),
    ] {
        out.one(name, kind, help, &[], value);
    }
}

/// Topics of Kafka that are read; none where none are configured.
pub fn kafka(groups: &[KafkaStatus], out: &mut Text) {
    type Value = fn(&TopicStatus) -> u64;
    let of_topics: [(&str, &str, &str, Value); 7] = [
        ("lag_records", "gauge", "Records that are not durable here yet.", |topic| topic.lag),
        ("partitions", "gauge", "Partitions that this member of the group reads.", |topic| {
            topic.partitions
        }),
        ("records_total", "counter", "Records that were read.", |topic| topic.records),
        ("bytes_total", "counter", "Bytes of their values.", |topic| topic.bytes),
        ("empty_total", "counter", "Records without a value, which become no line.", |topic| {
            topic.empty
        }),
        ("undecoded_total", "counter", "Records kept as they came.", |topic| topic.undecoded),
        ("rejected_total", "counter", "Records within values that were not taken.", |topic| {
            topic.rejected
        }),
    ];
    if groups.is_empty() {
        return;
    }
    for (name, kind, help, value) in of_topics {
        let name = format!("loginson_kafka_{name}");
        out.head(&name, kind, help);
        for group in groups {
            for (topic, counts) in &group.topics {
                out.sample(&name, &[("group", &group.group), ("topic", topic)], value(counts));
            }
        }
    }
    type OfGroup = fn(&KafkaStatus) -> u64;
    let of_groups: [(&str, &str, &str, OfGroup); 4] = [
        ("up", "gauge", "Whether the brokers answer.", |group| u64::from(group.reading)),
        ("errors_total", "counter", "Times that the brokers failed.", |group| group.errors),
        (
            "records_lost_total",
            "counter",
            "Records that the brokers deleted before they were read.",
            |group| group.records_lost,
        ),
        (
            "checkpoint_errors_total",
            "counter",
            "Failed writes of the checkpoint, which records how far topics are read.",
            |group| group.checkpoints_failed,
        ),
    ];
    for (name, kind, help, value) in of_groups {
        let name = format!("loginson_kafka_{name}");
        out.head(&name, kind, help);
        for group in groups {
            out.sample(&name, &[("group", &group.group)], value(group));
        }
    }
}

/// Metrics that every process has.
pub fn process(started_ns: i64, out: &mut Text) {
    let started_s = started_ns as f64 / 1e9;
    out.one(
        "loginson_info",
        "gauge",
        "Version of the program, as a label.",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1,
    );
    out.one(
        "process_start_time_seconds",
        "gauge",
        "Start of the process, Unix time.",
        &[],
        started_s,
    );
    if let Some(usage) = usage::now() {
        let mut one = |name: &str, kind: &str, help: &str, value: f64| {
            out.one(name, kind, help, &[], value);
        };
        let cpu = "Processor time of the process, in the kernel too.";
        one("process_cpu_seconds_total", "counter", cpu, usage.cpu_s);
        let resident = "Memory of the process that is in use.";
        one("process_resident_memory_bytes", "gauge", resident, usage.resident_bytes as f64);
        let reserved = "Addresses of the process that are reserved.";
        one("process_virtual_memory_bytes", "gauge", reserved, usage.virtual_bytes as f64);
        one("process_threads", "gauge", "Threads of the process.", usage.threads as f64);
    }
    let (open, most) = open_files::now();
    out.one("process_open_fds", "gauge", "Files and connections that are open.", &[], open);
    out.one("process_max_fds", "gauge", "Limit of open files and connections.", &[], most);
}

/// Clients of HTTP.
pub fn clients(clients: &Clients, out: &mut Text) {
    out.one(
        "loginson_http_clients_stalled_total",
        "counter",
        "Connections closed because the client read nothing of its response for too long.",
        &[],
        clients.stalled.load(Relaxed),
    );
    let name = "loginson_http_unknown_paths_total";
    let help = "POST and PUT requests to paths without a call, by what the path ends with.";
    out.head(name, "counter", help);
    for (path, count) in clients.bells.unknown() {
        out.sample(name, &[("path", path)], count);
    }
    if let Some(tls) = &clients.tls {
        https(tls, out);
    }
    let seats = &clients.seats;
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        out.one(name, kind, help, &[], value);
    };
    one("loginson_http_connections_open", "gauge", "Connections of HTTP.", seats.open());
    one(
        "loginson_http_connections_closed_idle_total",
        "counter",
        "Idle connections closed because others needed their seats.",
        seats.closed_idle(),
    );
    one(
        "loginson_http_connections_closed_slow_total",
        "counter",
        "Requests ended because their bodies were the slowest while others needed seats.",
        seats.closed_slow(),
    );
    one(
        "loginson_http_connections_refused_total",
        "counter",
        "Connections and requests refused because all connections were busy.",
        seats.refused(),
    );
}

/// HTTPS: handshakes that failed, and the certificate.
fn https(https: &Tls, out: &mut Text) {
    out.one(
        "loginson_https_handshakes_failed_total",
        "counter",
        "TLS handshakes of HTTPS that failed.",
        &[],
        https.failed(),
    );
    let status = https.credentials().status();
    out.one(
        "loginson_https_certificate_expires_seconds",
        "gauge",
        "When the certificate of HTTPS expires, Unix time.",
        &[],
        status.expires_s,
    );
    out.one(
        "loginson_https_reloads_total",
        "counter",
        "Times that the certificate of HTTPS was reloaded.",
        &[],
        status.reloads,
    );
    out.one(
        "loginson_https_reload_failures_total",
        "counter",
        "Times that the certificate of HTTPS could not be reloaded.",
        &[],
        status.reload_failures,
    );
}

/// Requests of other web pages, and for hosts that are not this server.
pub fn refused(guard: &Guard, out: &mut Text) {
    let name = "loginson_http_refused_total";
    out.head(name, "counter", "Requests refused before they were routed, by reason.");
    for reason in Reason::ALL {
        out.sample(name, &[("reason", reason.name())], guard.refused(reason));
    }
}

/// Calls that the gate refused, and logins.
pub fn access(gate: &Gate, out: &mut Text) {
    let name = "loginson_access_refused_total";
    out.head(name, "counter", "Calls refused because of the caller or their role, by reason.");
    for why in Refused::ALL {
        out.sample(name, &[("reason", why.name())], gate.refused(why));
    }
    out.one(
        "loginson_sessions_open",
        "gauge",
        "Logins at the page that have not ended.",
        &[],
        gate.sessions().open() as u64,
    );
    let audit = gate.audit();
    let of = |value: fn(&AuditLog) -> u64| audit.as_ref().map_or(0, value);
    out.one(
        "loginson_audit_entries_total",
        "counter",
        "Entries of the audit log that are durable.",
        &[],
        of(AuditLog::written),
    );
    out.one(
        "loginson_audit_lost_total",
        "counter",
        "Entries of the audit log that were lost.",
        &[],
        of(AuditLog::lost),
    );
    out.one(
        "loginson_audit_entries_waiting",
        "gauge",
        "Entries of the audit log that wait for the store.",
        &[],
        of(|log| log.waiting() as u64),
    );
}

/// What arrived, by source.
pub fn ingest(accounting: &Accounting, out: &mut Text) {
    // Each source is read once, so that the sums of one response agree.
    let sources = SourceKind::ALL.map(|kind| (kind.name(), accounting.source(kind).counts()));
    let mut each = |name: &str, kind: &str, help: &str, value: fn(&SourceCounts) -> u64| {
        out.head(name, kind, help);
        for (source, counts) in &sources {
            out.sample(name, &[("source", source)], value(counts));
        }
    };
    each("loginson_lines_received_total", "counter", "Lines that arrived, kept or not.", |c| {
        c.lines_received
    });
    each(
        "loginson_bytes_received_total",
        "counter",
        "Bytes of those lines, without separators.",
        |c| c.bytes_received,
    );
    each("loginson_lines_kept_total", "counter", "Lines that became durable.", |c| c.lines_kept);
    each("loginson_bytes_kept_total", "counter", "Bytes of those lines.", |c| c.bytes_kept);
    each(
        "loginson_connections_total",
        "counter",
        "Connections accepted; for HTTP, ingest requests.",
        |c| c.connections_total,
    );
    each("loginson_connections_open", "gauge", "Connections open now.", |c| c.connections_open);
    each(
        "loginson_connections_refused_total",
        "counter",
        "Connections refused because too many were open.",
        |c| c.connections_refused,
    );
    each(
        "loginson_connections_timed_out_total",
        "counter",
        "Connections closed because nothing arrived for too long.",
        |c| c.connections_timed_out,
    );
    each(
        "loginson_connections_truncated_total",
        "counter",
        "TLS connections that ended without close_notify.",
        |c| c.connections_truncated,
    );
    each(
        "loginson_framing_lost_total",
        "counter",
        "Messages of syslog whose octet count was wrong.",
        |c| c.framing_lost,
    );
    each(
        "loginson_undecompressed_total",
        "counter",
        "Compressed messages of syslog that could not be decompressed.",
        |c| c.undecompressed,
    );
    each("loginson_tls_handshakes_failed_total", "counter", "TLS handshakes that failed.", |c| {
        c.handshakes_failed
    });
    each(
        "loginson_source_threads_failed_total",
        "counter",
        "Threads of sources that panicked because of a bug; they restart.",
        |c| c.threads_failed,
    );
    let mut by_reason = |name: &str, help: &str, value: fn(DropCounts) -> u64| {
        out.head(name, "counter", help);
        for (source, counts) in &sources {
            for reason in DropReason::ALL {
                let labels = [("source", *source), ("reason", reason.name())];
                out.sample(name, &labels, value(counts.dropped(reason)));
            }
        }
    };
    by_reason(
        "loginson_lines_dropped_total",
        "Lines not kept, or not kept whole, by reason.",
        |drops| drops.lines,
    );
    by_reason(
        "loginson_bytes_dropped_total",
        "Bytes of those lines that were received and not kept.",
        |drops| drops.bytes,
    );
    let name = "loginson_udp_socket_drops_total";
    out.head(name, "counter", "Datagrams that the kernel dropped, by socket.");
    for (socket, drops) in accounting.udp_sockets.counts().enumerate() {
        out.sample(name, &[("socket", &socket.to_string())], drops);
    }
}

fn tls(status: &TlsStatus, out: &mut Text) {
    out.one(
        "loginson_tls_certificate_expires_seconds",
        "gauge",
        "When the TLS certificate expires, Unix time.",
        &[],
        status.expires_s,
    );
    out.one(
        "loginson_tls_reloads_total",
        "counter",
        "Times that changed certificate files were reloaded.",
        &[],
        status.reloads,
    );
    out.one(
        "loginson_tls_reload_failures_total",
        "counter",
        "Times that certificate files could not be reloaded, so that the old ones stayed in use.",
        &[],
        status.reload_failures,
    );
}

fn queries(app: &App, out: &mut Text) {
    let list = app.queue.list();
    let count = |state| list.iter().filter(|info| info.state == state).count();
    out.one(
        "loginson_queries_running",
        "gauge",
        "Queries that run, tails included.",
        &[],
        count(QueryState::Running),
    );
    out.one(
        "loginson_queries_waiting",
        "gauge",
        "Queries that wait for a slot.",
        &[],
        count(QueryState::Waiting),
    );
    let memory: u64 = list.iter().map(|info| info.memory_bytes).sum();
    out.one("loginson_query_memory_bytes", "gauge", "Memory held by running queries.", &[], memory);
    memory_budget(&app.memory, out);
    let name = "loginson_queries_total";
    out.head(name, "counter", "Queries that ended, by how; tails are not counted.");
    for state in [QueryState::Done, QueryState::Cancelled, QueryState::Failed] {
        out.sample(
            name,
            &[("state", state.name())],
            app.queries_ended[state as usize].load(Relaxed),
        );
    }
    out.sample(name, &[("state", "refused")], app.queries_refused.load(Relaxed));
    out.durations(
        "loginson_query_duration_seconds",
        "Time that queries ran, without exports and background queries.",
        &app.query_runs.counts(),
    );
    out.durations(
        "loginson_query_wait_seconds",
        "Time that they waited for a slot.",
        &app.query_waits.counts(),
    );
    out.one(
        "loginson_queries_slow_total",
        "counter",
        "Queries that ran for at least query.slow; the log names them.",
        &[],
        app.queries_slow.load(Relaxed),
    );
    out.one(
        "loginson_queries_paused",
        "gauge",
        "Queries that are paused.",
        &[],
        count(QueryState::Paused),
    );
    out.one(
        "loginson_tail_lines_skipped_total",
        "counter",
        "Lines that live tails skipped because their clients read too slowly.",
        &[],
        app.tail_lines_skipped.load(Relaxed),
    );
    out.one(
        "loginson_tail_messages_missed_total",
        "counter",
        "Messages of the log of a cluster that live tails missed while a partition changed its owner.",
        &[],
        app.tail_messages_missed.load(Relaxed),
    );
    out.one(
        "loginson_result_pages_open",
        "gauge",
        "Pages of results of background queries that are being read or sent.",
        &[],
        app.options.pages_max - app.page_permits.available_permits(),
    );
    out.one(
        "loginson_result_pages_refused_total",
        "counter",
        "Pages of results refused because too many were being read or sent.",
        &[],
        app.pages_refused.load(Relaxed),
    );
    clients(&app.clients, out);
    refused(&app.guard, out);
    access(&app.gate, out);
    let Some(jobs) = app.jobs.get() else { return };
    let name = "loginson_background_queries_total";
    out.head(name, "counter", "Background queries that ended, by how.");
    for state in
        [QueryState::Done, QueryState::Cancelled, QueryState::Failed, QueryState::Interrupted]
    {
        out.sample(name, &[("state", state.name())], jobs.ended(state));
    }
    out.one(
        "loginson_background_expired_total",
        "counter",
        "Background queries that expired and were deleted.",
        &[],
        jobs.expired(),
    );
    out.one(
        "loginson_background_result_bytes",
        "gauge",
        "Bytes of the kept rows of background queries.",
        &[],
        jobs.bytes(),
    );
}

fn store(pipeline: &node::pipeline::Pipeline, out: &mut Text) {
    let stats = pipeline.store().stats();
    let mut gauge = |name: &str, help: &str, value: u64| out.one(name, "gauge", help, &[], value);
    gauge(
        "loginson_store_lines",
        "Durable lines that are not deleted, without rows of the summary.",
        stats.lines,
    );
    gauge("loginson_store_own_lines", "Rows of the summary.", stats.lines_own);
    gauge("loginson_store_frames", "Frames in hot segments.", stats.frames);
    gauge(
        "loginson_store_frames_unparsed",
        "Frames whose event times are not known yet.",
        stats.frames_unparsed,
    );
    gauge(
        "loginson_store_raw_bytes",
        "Bytes of those lines, with their newlines.",
        stats.bytes_raw,
    );
    gauge("loginson_store_disk_bytes", "Bytes of the segment files.", stats.bytes_disk);
    gauge("loginson_store_segments", "Segment files.", stats.segments);
    gauge(
        "loginson_store_queue_bytes",
        "Bytes of frames that wait for the disk.",
        stats.queue_bytes,
    );
    gauge(
        "loginson_store_cache_bytes",
        "Bytes of frames and parsed batches in memory.",
        stats.cache_bytes,
    );
    if let Ok(space) = pipeline.store().disk_space() {
        gauge(
            "loginson_store_disk_free_bytes",
            "Free space on the file system of the data directory.",
            space.free_bytes,
        );
        gauge(
            "loginson_store_disk_used_bytes",
            "Bytes used on that file system, by any program.",
            space.used_bytes,
        );
        gauge("loginson_store_disk_size_bytes", "Size of that file system.", space.total_bytes);
    }
    let state = u64::from(stats.state == StoreState::Ok);
    gauge(
        "loginson_store_writable",
        "1 while the store accepts lines; 0 while the disk is full or failing.",
        state,
    );
    let mut counter =
        |name: &str, help: &str, value: u64| out.one(name, "counter", help, &[], value);
    counter(
        "loginson_store_held_ranges_omitted_total",
        "Ranges of collectors' frame numbers that found no room in a segment's header.",
        stats.held_ranges_omitted,
    );
    counter(
        "loginson_store_lines_expired_total",
        "Lines deleted by retention.",
        stats.lines_expired,
    );
    counter(
        "loginson_store_bytes_expired_total",
        "Bytes on disk deleted by retention.",
        stats.bytes_expired,
    );
    counter(
        "loginson_store_frames_committed_total",
        "Frames made durable.",
        stats.frames_committed,
    );
    counter(
        "loginson_store_groups_committed_total",
        "Groups of frames made durable with one sync.",
        stats.groups_committed,
    );
    sealing(&stats, out);
    let latency = "Time from accepting a frame until it is durable.";
    out.durations("loginson_store_commit_latency_seconds", latency, &stats.commit_latency);
    let longest = stats.commit_latency.max_ns as f64 / 1e9;
    out.one(
        "loginson_store_commit_latency_seconds_max",
        "gauge",
        "The longest commit latency since the start.",
        &[],
        longest,
    );
}

fn sealing(stats: &StoreStats, out: &mut Text) {
    let gauges = [
        ("loginson_store_segments_sealed", "Sealed segments.", stats.segments_sealed),
        (
            "loginson_store_sealed_raw_bytes",
            "Bytes of the lines in sealed segments, with their newlines.",
            stats.sealed_bytes_raw,
        ),
        (
            "loginson_store_sealed_disk_bytes",
            "Bytes of the files of sealed segments.",
            stats.sealed_bytes_disk,
        ),
        (
            "loginson_seal_lag_segments",
            "Closed segments that are not sealed yet.",
            stats.sealing.lag_segments,
        ),
        ("loginson_seal_lag_bytes", "Bytes of their files.", stats.sealing.lag_bytes),
        (
            "loginson_seal_damaged_segments",
            "Damaged segments, which are left unchanged.",
            stats.sealing.damaged_segments,
        ),
        (
            "loginson_seal_damaged_lines",
            "Lines in them that are missing or cannot be read, as far as it is known.",
            stats.sealing.damaged_lines,
        ),
    ];
    for (name, help, value) in gauges {
        out.one(name, "gauge", help, &[], value);
    }
    out.one(
        "loginson_seal_lag_seconds",
        "gauge",
        "Time since the last line of the oldest such segment arrived.",
        &[],
        stats.sealing.lag_ns as f64 / 1e9,
    );
    let sealing = &stats.sealing;
    let counters = [
        ("loginson_seal_segments_total", "Segments sealed.", sealing.sealed_segments),
        (
            "loginson_seal_trailed_total",
            "Of those, the ones that were sealed from memory while they were written.",
            sealing.trailed_segments,
        ),
        (
            "loginson_seal_raw_bytes_total",
            "Bytes of the lines in them, with their newlines.",
            sealing.sealed_bytes_raw,
        ),
        ("loginson_seal_merges_total", "Runs of small segments merged into one.", sealing.merges),
        (
            "loginson_seal_reencoded_total",
            "Segments re-encoded while the machine was idle.",
            sealing.reencoded_segments,
        ),
        (
            "loginson_seal_pruned_total",
            "Segments rewritten without some lines, for deletions and rules of retention.",
            sealing.deleted_from_segments,
        ),
        (
            "loginson_store_lines_deleted_total",
            "Lines deleted by deletions and rules of retention.",
            sealing.lines_deleted,
        ),
        (
            "loginson_seal_failures_total",
            "Rewrites of segments that failed; each is tried again.",
            sealing.failures,
        ),
        (
            "loginson_seal_urgent_total",
            "Times that sealing stopped yielding, because of its backlog or a full disk.",
            sealing.urgent,
        ),
    ];
    for (name, help, value) in counters {
        out.one(name, "counter", help, &[], value);
    }
    let name = "loginson_store_written_bytes_total";
    out.head(name, "counter", "Bytes written to segment files, by kind.");
    out.sample(name, &[("kind", "hot")], sealing.hot_bytes_written);
    out.sample(name, &[("kind", "sealed")], sealing.sealed_bytes_written);
    out.one(
        "loginson_store_committed_raw_bytes_total",
        "counter",
        "Bytes of the lines that became durable, with their newlines.",
        &[],
        sealing.bytes_raw_committed,
    );
}

/// The memory that queries, tails, answers and inserts share.
fn memory_budget(memory: &Budget, out: &mut Text) {
    let name = "loginson_memory_bytes_max";
    out.one(
        name,
        "gauge",
        "Memory that queries, tails, answers and inserts share.",
        &[],
        memory.bytes_max(),
    );
    let name = "loginson_memory_peak_bytes";
    out.one(name, "gauge", "Peak of that memory.", &[], memory.peak());
    let name = "loginson_memory_bytes";
    out.head(name, "gauge", "Memory taken from it now, by purpose.");
    for purpose in Purpose::ALL {
        out.sample(name, &[("purpose", purpose.name())], memory.held_for(purpose));
    }
    let name = "loginson_memory_refused_total";
    out.head(name, "counter", "Requests that found not enough of it free, by purpose.");
    for purpose in Purpose::ALL {
        out.sample(name, &[("purpose", purpose.name())], memory.refused(purpose));
    }
}
