//! Load from several processes on several machines: agents that each send their share of a trial,
//! and a coordinator that merges their results.
//!
//! `loginson-lab agent --listen 127.0.0.1:PORT` waits for trials. The coordinator ([`run`]) sends
//! each agent the trial with its [`Share`](crate::trial::Share); the agents connect to the store;
//! when all are ready, they are told to start after the same delay. Their lines are sent back while
//! they run and are merged second by second ([`merge`]). The loss of an agent ends the trial,
//! because its part of the load is missing. Both sides send a message every second, because a
//! machine without power or network closes no connection: silence counts as a loss too.
//!
//! The protocol is one connection per trial with one JSON [`Message`] per line. Anyone who may
//! speak to an agent can make it put load on any machine. That is why it listens on loopback by
//! default, and elsewhere only with a secret that the coordinator sends first. The secret is not
//! encrypted: it keeps away people who can reach the agent, but not those who can read the network.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, Interval, MissedTickBehavior, interval_at};

use crate::results::{End, Line};
use crate::trial::Trial;

mod coordinator;
mod merge;
mod processes;
mod serve;

pub use coordinator::run;
pub use processes::Processes;
pub use serve::serve;

/// Version of the protocol: agent and coordinator must have the same version.
pub const PROTOCOL: u32 = 3;

/// Limit of a line from the other side; a longer one ends the connection. A histogram of one second
/// takes some kilobytes.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Limit of the messages that were read and not handled; beyond it the sender waits.
const MESSAGES_MAX: usize = 64;

/// Consecutive seconds of silence after which the other side is lost. Longer than the greeting of a
/// coordinator takes ([`coordinator::GREET_S_MAX`]), because an agent that was greeted first waits
/// for the last.
const SILENCE_S_MAX: u32 = 15;

/// Ticks every second: to send [`Message::Alive`], and to count a second of silence. Seconds in
/// which this side itself was delayed do not count against the other.
fn every_second() -> Interval {
    let second = Duration::from_secs(1);
    let mut ticks = interval_at(Instant::now() + second, second);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// A message of the protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    /// The first message of both sides; that of the coordinator has the secret of the agent.
    Hello {
        protocol: u32,
        lab_version: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
    },
    /// To the agent: the trial with its share.
    Run(Box<Trial>),
    /// From the agent: all connections to the store are made.
    Ready,
    /// To the agent: start after this time.
    Go { after_ms: u64 },
    /// From both sides, every second from then on.
    Alive,
    /// From the agent: its measurements.
    Line(Box<Line>),
    /// From the agent, the last: how its part ended; `None` if it was stopped.
    End(Option<End>),
    /// To the agent: stop.
    Stop,
    /// From the agent, the last: it refuses this trial.
    Refused { reason: String },
}

impl Message {
    fn hello(secret: Option<&str>) -> Message {
        let lab_version = env!("CARGO_PKG_VERSION").to_owned();
        Message::Hello { protocol: PROTOCOL, lab_version, secret: secret.map(str::to_owned) }
    }

    /// Whether it has this secret. It takes as long for every secret of the same length.
    fn knows(&self, secret: &str) -> bool {
        let Message::Hello { secret: Some(told), .. } = self else { return false };
        let (told, secret) = (told.as_bytes(), secret.as_bytes());
        let differences = told.iter().zip(secret).map(|(a, b)| a ^ b);
        told.len() == secret.len() && differences.fold(0, |all, one| all | one) == 0
    }

    /// Checks the version of the other side.
    fn greets(&self) -> Result<(), String> {
        match self {
            Message::Hello { protocol, .. } if *protocol == PROTOCOL => Ok(()),
            Message::Hello { protocol, lab_version, .. } => Err(format!(
                "speaks version {protocol} of the protocol (loginson-lab {lab_version}), this is {PROTOCOL} \
                 (loginson-lab {}): use the same version everywhere",
                env!("CARGO_PKG_VERSION")
            )),
            _ => Err("did not say which version it has".to_owned()),
        }
    }
}

/// Reads the secret of agents, without the end of its line.
pub fn read_secret(path: &Path) -> std::io::Result<String> {
    let named = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let text = std::fs::read_to_string(path)
        .map_err(|error| std::io::Error::new(error.kind(), named(&error)))?;
    match text.trim() {
        "" => Err(std::io::Error::other(named(&"it is empty; write a secret into it"))),
        secret => Ok(secret.to_owned()),
    }
}

/// Reads messages in a task of its own, so that waiting for one can be cancelled. An error is the
/// last item.
fn messages(read: OwnedReadHalf) -> mpsc::Receiver<Result<Message, String>> {
    let (sender, receiver) = mpsc::channel(MESSAGES_MAX);
    tokio::spawn(async move {
        let mut read = BufReader::new(read);
        let mut line = Vec::new();
        loop {
            line.clear();
            let message = match (&mut read).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await
            {
                Err(error) => Err(error.to_string()),
                Ok(0) => Err("the connection was closed".to_owned()),
                Ok(_) if line.last() != Some(&b'\n') => {
                    Err(format!("a line was cut, or is longer than {LINE_BYTES_MAX} bytes"))
                }
                Ok(_) => serde_json::from_slice(&line).map_err(|error| error.to_string()),
            };
            let is_last = message.is_err();
            if sender.send(message).await.is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

async fn send(write: &mut OwnedWriteHalf, message: &Message) -> Result<(), String> {
    let mut line = serde_json::to_vec(message).expect("a message is plain data");
    line.push(b'\n');
    write.write_all(&line).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
