//! A channel of a notifier whose failures are in the log.

use std::collections::BTreeSet;

use alerts::{Channel, Notification, Sent};
use text::terminal::escaped;

use crate::process::lasting::{Lasting, News};

/// Sends what another channel sends, and says in the log why it fails.
pub struct LoggedChannel {
    name: String,
    channel: Box<dyn Channel>,
    lasting: Lasting,
}

impl LoggedChannel {
    /// The channel of the notifier `name`.
    pub fn new(name: &str, channel: Box<dyn Channel>) -> LoggedChannel {
        LoggedChannel { name: name.to_owned(), channel, lasting: Lasting::default() }
    }
}

impl Channel for LoggedChannel {
    fn send(&mut self, notification: &Notification) -> Sent {
        let sent = self.channel.send(notification);
        let reason = match &sent {
            // Whether the rest works is seen when it is sent.
            Sent::InPart => return sent,
            Sent::Accepted => None,
            Sent::Refused(fault) | Sent::Failed { fault, .. } => Some(fault.to_string()),
        };
        let name = &self.name;
        match self.lasting.note(reason) {
            Some(News::Fails(reason)) => {
                tracing::warn!("the notifier {name} fails: {}", escaped(&reason));
            }
            Some(News::Works) => tracing::info!("the notifier {name} works again"),
            None => {}
        }
        sent
    }

    fn taken(&self) -> BTreeSet<usize> {
        self.channel.taken()
    }
}
