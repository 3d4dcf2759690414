//! PostgreSQL, with its usual log line prefix: time, process, `user@database`.

use super::clock::append;
use super::world::{Context, Said, Severity, facility};

/// A line of an ordinary day.
pub fn any(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let pid = backend(cx);
    let ms = cx.duration_ms(230.0);
    match cx.rng.u32(..100) {
        0..45 => {
            let customer = cx.rng.u32(1_000..40_000);
            line(
                cx,
                out,
                pid,
                "shop@shop LOG",
                format_args!(
                    "duration: {ms:.3} ms  statement: SELECT * FROM orders WHERE customer_id = {customer} ORDER BY placed_at DESC LIMIT 20"
                ),
            )
        }
        45..60 => line(
            cx,
            out,
            pid,
            "[unknown]@[unknown] LOG",
            format_args!("connection received: host=10.0.2.21 port={}", 32_768 + pid % 20_000),
        ),
        60..75 => line(
            cx,
            out,
            pid,
            "shop@shop LOG",
            format_args!("connection authorized: user=shop database=shop application_name=orders"),
        ),
        75..85 => line(
            cx,
            out,
            pid,
            "shop@shop LOG",
            format_args!(
                "disconnection: session time: 0:{:02}:{:02}.{:03} user=shop database=shop host=10.0.2.22 port={}",
                pid % 40,
                pid % 60,
                pid % 1_000,
                32_768 + pid % 20_000
            ),
        ),
        85..93 => {
            let buffers = cx.rng.u32(60..9_000);
            line(
                cx,
                out,
                pid,
                "@ LOG",
                format_args!(
                    "checkpoint complete: wrote {buffers} buffers ({:.1}%); 0 WAL file(s) added, 0 removed, {} recycled",
                    f64::from(buffers) / 163.84,
                    buffers % 5
                ),
            )
        }
        93..98 => line(
            cx,
            out,
            pid,
            "@ LOG",
            format_args!(
                "automatic vacuum of table \"shop.public.carts\": index scans: 1, pages: 0 removed, {} remain",
                4_000 + pid % 900
            ),
        ),
        _ => line(
            cx,
            out,
            pid,
            "shop@shop ERROR",
            format_args!("duplicate key value violates unique constraint \"carts_pkey\""),
        ),
    }
}

/// Lines of the database while its disk is full.
pub fn out_of_order(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let pid = backend(cx);
    match cx.rng.u32(..10) {
        0..6 => no_slots(cx, out),
        6..8 => line(
            cx,
            out,
            pid,
            "shop@shop ERROR",
            format_args!(
                "could not write to file \"base/pgsql_tmp/pgsql_tmp{pid}.0\": No space left on device"
            ),
        ),
        _ => cannot_extend(cx, out),
    }
}

/// The disk is full.
pub fn cannot_extend(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let pid = backend(cx);
    line(
        cx,
        out,
        pid,
        "shop@shop ERROR",
        format_args!(
            "could not extend file \"base/16384/24601\": No space left on device; hint: Check free disk space."
        ),
    )
}

/// Sessions that wait for the disk have taken all connection slots.
pub fn no_slots(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let pid = backend(cx);
    line(
        cx,
        out,
        pid,
        "shop@shop FATAL",
        format_args!(
            "remaining connection slots are reserved for roles with the SUPERUSER attribute"
        ),
    )
}

/// There is space again.
pub fn recovered(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let pid = cx.pid("checkpointer");
    line(
        cx,
        out,
        pid,
        "@ LOG",
        format_args!(
            "checkpoint complete: wrote 8812 buffers (53.8%); 4 WAL file(s) added, 0 removed, 1 recycled"
        ),
    )
}

fn line(
    cx: &Context<'_>,
    out: &mut Vec<u8>,
    pid: u32,
    who: &str,
    text: std::fmt::Arguments<'_>,
) -> Said {
    cx.stamp.postgresql(out);
    append(out, format_args!(" [{pid}] {who}:  {text}"));
    let severity = match who.rsplit(' ').next() {
        Some("FATAL") => Severity::Critical,
        Some("ERROR") => Severity::Error,
        _ => Severity::Info,
    };
    Said { app: "postgres", pid, facility: facility::LOCAL0, severity }
}

/// The process of one of some sixty sessions.
fn backend(cx: &mut Context<'_>) -> u32 {
    cx.pid("postgres") + cx.rng.u32(10..70)
}
