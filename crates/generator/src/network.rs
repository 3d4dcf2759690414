//! A Cisco router.

use super::clock::append;
use super::world::{Context, Said, Severity, facility};

/// Name of the application: the envelope writes its lines in Cisco's format.
pub const APP: &str = "ios";

/// One line.
pub fn any(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let visitor = cx.visitor();
    let port = cx.rng.u16(1_024..60_000);
    let severity = match cx.rng.u32(..10) {
        0..6 => {
            append(
                out,
                format_args!(
                    "%SEC-6-IPACCESSLOGP: list OUTSIDE-IN denied tcp {visitor}({port}) -> 10.0.0.5({}), 1 packet",
                    cx.pick_uneven(&[23, 22, 445, 3389])
                ),
            );
            Severity::Info
        }
        6..8 => {
            let state = if cx.rng.bool() { "up" } else { "down" };
            append(
                out,
                format_args!(
                    "%LINEPROTO-5-UPDOWN: Line protocol on Interface GigabitEthernet0/{}, changed state to {state}",
                    cx.rng.u32(1..9)
                ),
            );
            Severity::Notice
        }
        8 => {
            append(
                out,
                format_args!("%SYS-5-CONFIG_I: Configured from console by ops on vty0 (10.0.5.51)"),
            );
            Severity::Notice
        }
        _ => {
            append(
                out,
                format_args!(
                    "%OSPF-4-ERRRCV: Received invalid packet: mismatched area ID from backbone area from 10.0.0.2, GigabitEthernet0/1"
                ),
            );
            Severity::Warning
        }
    };
    Said { app: APP, pid: 0, facility: facility::LOCAL7, severity }
}
