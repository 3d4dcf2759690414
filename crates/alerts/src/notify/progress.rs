//! How far a notification was sent that goes out in several requests.

use std::collections::BTreeSet;

use sinks::Fault;

use super::{Notice, Notification, Sent};

/// Requests of one call of a channel: between calls, the thread of the notifier can end.
const REQUESTS_MAX: usize = 50;

/// How far the alerts with news of a notification were sent.
#[derive(Default)]
pub struct Progress {
    /// The rule and the time of the notification; none once it was sent to its end.
    of: Option<(String, i64)>,
    /// Alerts with news that were taken or refused.
    done: usize,
    /// The places of those that were taken.
    taken: BTreeSet<usize>,
    /// Why the last one was refused that was.
    refused: Option<Fault>,
}

impl Progress {
    /// Sends the alerts with news, up to `alerts_max` in a request, beginning behind those that the
    /// call before sent. What one request is refused for keeps the others from nothing.
    pub fn send(
        &mut self,
        notification: &Notification,
        alerts_max: usize,
        mut request: impl FnMut(&[&Notice]) -> Sent,
    ) -> Sent {
        let of = Some((notification.rule_id.clone(), notification.time_ns));
        if self.of != of {
            *self = Progress { of, ..Progress::default() };
        }
        let alerts = notification.alerts.iter().enumerate();
        let (places, news): (Vec<usize>, Vec<&Notice>) =
            alerts.filter(|(_, notice)| notice.is_due).unzip();
        for _ in 0..REQUESTS_MAX {
            if self.done >= news.len() {
                break;
            }
            let end = news.len().min(self.done + alerts_max);
            match request(&news[self.done..end]) {
                Sent::Accepted => self.taken.extend(&places[self.done..end]),
                Sent::Refused(fault) => self.refused = Some(fault),
                other => return other,
            }
            self.done = end;
        }
        if self.done < news.len() {
            return Sent::InPart;
        }
        self.of = None;
        match self.refused.take() {
            Some(fault) => Sent::Refused(fault),
            None => Sent::Accepted,
        }
    }

    /// Sends the alerts with news, each in a request.
    pub fn send_each(
        &mut self,
        notification: &Notification,
        mut request: impl FnMut(&Notice) -> Sent,
    ) -> Sent {
        self.send(notification, 1, |notices| request(notices[0]))
    }

    /// The places of the alerts that were taken.
    pub fn taken(&self) -> BTreeSet<usize> {
        self.taken.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::notification;
    use super::*;

    /// A notification with so many alerts with news, and one without.
    fn with_news(count: usize) -> Notification {
        let mut of = notification();
        let one = of.alerts[0].clone();
        let named = |n: usize| {
            let mut notice = one.clone();
            notice.labels.insert("n".to_owned(), n.to_string());
            notice
        };
        of.alerts = (0..count).map(&named).collect();
        of.alerts.push(Notice { is_due: false, ..named(count) });
        of
    }

    #[test]
    fn each_alert_is_sent_once_and_calls_are_short() {
        let (of, mut progress) = (with_news(501), Progress::default());
        let (mut sent, mut calls) = (Vec::new(), 0);
        loop {
            calls += 1;
            let mut requests = 0;
            let answer = progress.send_each(&of, |notice| {
                requests += 1;
                sent.push(notice.labels["n"].clone());
                Sent::Accepted
            });
            assert!(requests <= REQUESTS_MAX);
            if answer == Sent::Accepted {
                break;
            }
            assert_eq!(answer, Sent::InPart);
        }
        assert_eq!(calls, 501_usize.div_ceil(REQUESTS_MAX));
        assert_eq!(sent, (0..501).map(|n| n.to_string()).collect::<Vec<String>>());
    }

    #[test]
    fn what_was_taken_is_known_though_the_rest_fails() {
        let (of, mut progress) = (with_news(7), Progress::default());
        let failed = || Sent::Failed { fault: Fault::new("down", ""), retry_after: None };
        let mut answers = vec![
            Sent::Accepted,
            failed(),
            Sent::Refused(Fault::new("no", "")),
            failed(),
            Sent::Accepted,
        ]
        .into_iter();
        let mut next = |notices: &[&Notice]| {
            assert!(notices.len() <= 3);
            answers.next().unwrap()
        };
        assert_eq!(progress.send(&of, 3, &mut next), failed());
        assert_eq!(progress.taken(), BTreeSet::from([0, 1, 2]));
        assert_eq!(progress.send(&of, 3, &mut next), failed());
        assert_eq!(progress.send(&of, 3, &mut next), Sent::Refused(Fault::new("no", "")));
        assert_eq!(progress.taken(), BTreeSet::from([0, 1, 2, 6]));
        // The same one again is sent anew.
        assert_eq!(progress.send(&of, 9, |_| Sent::Accepted), Sent::Accepted);
        assert_eq!(progress.taken().len(), 7);
    }
}
