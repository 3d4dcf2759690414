//! The shop's own service, which logs JSON.

use super::clock::append;
use super::world::{Context, Said, Severity, facility};

const CUSTOMERS: [&str; 8] = ["ada", "bo", "carmen", "dilek", "emil", "farah", "goran", "hanna"];

/// A line of an ordinary day, or of the service while the database is out of order.
pub fn any(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let request = cx.rng.u64(..);
    if cx.is_failing && cx.rng.u32(..100) < 70 {
        let order = cx.rng.u32(10_000..99_999);
        return failed(cx, out, order);
    }
    let user = cx.pick_uneven(&CUSTOMERS);
    let order = cx.rng.u32(10_000..99_999);
    let severity = match cx.rng.u32(..100) {
        0 => {
            append(
                out,
                format_args!(
                    "{{\"level\":\"error\",\"msg\":\"payment provider answered with an error\",\"request_id\":\"{request:016x}\",\"order_id\":{order},\"user\":\"{user}\",\"provider_status\":503,\"error\":\"503 Service Unavailable\"}}"
                ),
            );
            Severity::Error
        }
        1..4 => {
            let ms = cx.duration_ms(1_900.0);
            append(
                out,
                format_args!(
                    "{{\"level\":\"warning\",\"msg\":\"slow query\",\"request_id\":\"{request:016x}\",\"duration_ms\":{ms:.1},\"table\":\"order_items\"}}"
                ),
            );
            Severity::Warning
        }
        4..20 => {
            let ms = cx.duration_ms(3.0);
            append(
                out,
                format_args!(
                    "{{\"level\":\"debug\",\"msg\":\"cache hit\",\"request_id\":\"{request:016x}\",\"key\":\"cart:{user}\",\"duration_ms\":{ms:.2}}}"
                ),
            );
            Severity::Debug
        }
        20..50 => {
            let ms = cx.duration_ms(45.0);
            let items = cx.rng.u32(1..9);
            append(
                out,
                format_args!(
                    "{{\"level\":\"info\",\"msg\":\"order placed\",\"request_id\":\"{request:016x}\",\"order_id\":{order},\"user\":\"{user}\",\"items\":{items},\"total_cents\":{},\"duration_ms\":{ms:.1}}}",
                    items * cx.rng.u32(390..8_900)
                ),
            );
            Severity::Info
        }
        _ => {
            let ms = cx.duration_ms(12.0);
            let path = cx.pick(&["/api/orders", "/api/cart", "/api/products"]);
            append(
                out,
                format_args!(
                    "{{\"level\":\"info\",\"msg\":\"request\",\"request_id\":\"{request:016x}\",\"method\":\"GET\",\"path\":\"{path}\",\"status\":200,\"user\":\"{user}\",\"duration_ms\":{ms:.1}}}"
                ),
            );
            Severity::Info
        }
    };
    said(cx, severity)
}

/// The service cannot get a connection to the database, and an order fails.
pub fn failed(cx: &mut Context<'_>, out: &mut Vec<u8>, order: u32) -> Said {
    let request = cx.rng.u64(..);
    let user = cx.pick_uneven(&CUSTOMERS);
    append(
        out,
        format_args!(
            "{{\"level\":\"error\",\"msg\":\"could not get connection\",\"request_id\":\"{request:016x}\",\"order_id\":{order},\"user\":\"{user}\",\"pool\":\"db1:5432/shop\",\"waited_ms\":5000,\"error\":\"FATAL: remaining connection slots are reserved for roles with the SUPERUSER attribute\"}}"
        ),
    );
    said(cx, Severity::Error)
}

/// The database is back.
pub fn recovered(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    append(
        out,
        format_args!(
            "{{\"level\":\"info\",\"msg\":\"connection pool recovered\",\"pool\":\"db1:5432/shop\",\"connections\":40}}"
        ),
    );
    said(cx, Severity::Info)
}

fn said(cx: &Context<'_>, severity: Severity) -> Said {
    Said { app: "orders", pid: cx.pid("orders"), facility: facility::LOCAL1, severity }
}
