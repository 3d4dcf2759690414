//! A failure that lasts, in the log: one line when it begins or its reason changes, and one when it
//! is over.

/// What the log said last of one thing that can fail.
#[derive(Debug, Default)]
pub struct Lasting {
    said: Option<String>,
}

/// What is to be said now.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// It fails, for this reason.
    Fails(String),
    /// It works again.
    Works,
}

impl Lasting {
    /// Takes the outcome of an attempt: the reason why it failed, or none.
    pub fn note(&mut self, reason: Option<String>) -> Option<News> {
        if reason == self.said {
            return None;
        }
        self.said.clone_from(&reason);
        Some(reason.map_or(News::Works, News::Fails))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_said_once() {
        let mut lasting = Lasting::default();
        let fails = |reason: &str| Some(News::Fails(reason.to_owned()));
        for (reason, expected) in [
            (None, None),
            (Some("down"), fails("down")),
            (Some("down"), None),
            (Some("refused"), fails("refused")),
            (Some("down"), fails("down")),
            (None, Some(News::Works)),
            (None, None),
            (Some("down"), fails("down")),
        ] {
            assert_eq!(lasting.note(reason.map(str::to_owned)), expected);
        }
    }
}
