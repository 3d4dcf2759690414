//! Elasticsearch's `_bulk`: action lines, each with the document that follows it.

/// An action that a line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Adds a document.
    Create,
    /// Adds a document.
    Index,
    /// Would change a document, which follows as a line.
    Update,
    /// Would delete a document; no line follows.
    Delete,
}

impl Action {
    const ALL: [Action; 4] = [Action::Create, Action::Index, Action::Update, Action::Delete];

    /// Its name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Index => "index",
            Action::Update => "update",
            Action::Delete => "delete",
        }
    }

    /// Whether it adds a document; others are refused, because lines are only added.
    pub fn adds(self) -> bool {
        matches!(self, Action::Create | Action::Index)
    }

    /// The action of `{"create":…`.
    fn of(line: &[u8]) -> Option<Action> {
        let inside = line.trim_ascii_start().strip_prefix(b"{")?;
        let name = inside.trim_ascii_start().strip_prefix(b"\"")?;
        Action::ALL.into_iter().find(|action| {
            let rest = name.strip_prefix(action.name().as_bytes());
            rest.is_some_and(|rest| rest.first() == Some(&b'"'))
        })
    }
}

/// A body that is not a valid `_bulk` request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BulkError {
    /// A line that should be an action and is none.
    #[error(
        "line {line} of the bulk request should be an action ({{\"create\":{{}}}}) but is {found:?}; \
         lines are only added here, by create or index"
    )]
    NoAction {
        /// Line number, counted from 1.
        line: u64,
        /// The start of the line.
        found: String,
    },
    /// The action changes from line to line too often.
    #[error(
        "line {line} of the bulk request begins the {RUNS_MAX}th run of equal actions, and no more are \
         taken; send smaller requests"
    )]
    TooMixed {
        /// Line number, counted from 1.
        line: u64,
    },
}

/// Bytes of the wrong line that the error shows.
const SHOWN_BYTES_MAX: usize = 80;
/// Runs of equal actions in one request. Beyond it the rest is refused.
pub const RUNS_MAX: usize = 10_000;

/// The line that comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Next {
    #[default]
    Action,
    Document,
    /// The document of an action that is refused.
    Unwanted,
}

/// The actions of one request, in order: each with how often it is repeated.
pub type Runs = Vec<(Action, u64)>;

/// The position in a request, and its actions so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bulk {
    lines: u64,
    next: Next,
    runs: Runs,
}

impl Bulk {
    /// Takes whole lines, and passes on the documents that are added, each with its newline.
    pub fn take(&mut self, block: &[u8], mut add: impl FnMut(&[u8])) -> Result<(), BulkError> {
        for line in block.split_inclusive(|&b| b == b'\n') {
            self.lines += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            self.next = match self.next {
                Next::Action => self.begin(line)?,
                Next::Document => {
                    add(line);
                    Next::Action
                }
                Next::Unwanted => Next::Action,
            };
        }
        Ok(())
    }

    fn begin(&mut self, line: &[u8]) -> Result<Next, BulkError> {
        let Some(action) = Action::of(line) else {
            let line = line.trim_ascii();
            let shown = &line[..line.len().min(SHOWN_BYTES_MAX)];
            let found = String::from_utf8_lossy(shown).into_owned();
            return Err(BulkError::NoAction { line: self.lines, found });
        };
        let is_full = self.runs.len() == RUNS_MAX;
        match self.runs.last_mut() {
            Some((last, count)) if *last == action => *count += 1,
            _ if is_full => return Err(BulkError::TooMixed { line: self.lines }),
            _ => self.runs.push((action, 1)),
        }
        Ok(match action {
            Action::Create | Action::Index => Next::Document,
            Action::Update => Next::Unwanted,
            Action::Delete => Next::Action,
        })
    }

    /// The actions so far. One whose document has not come is not among them.
    pub fn runs(mut self) -> Runs {
        if self.next == Next::Document
            && let Some((_, count)) = self.runs.last_mut()
        {
            *count -= 1;
        }
        self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(bulk: &mut Bulk, block: &str) -> Result<String, BulkError> {
        let mut added = Vec::new();
        bulk.take(block.as_bytes(), |line| added.extend_from_slice(line))?;
        Ok(String::from_utf8(added).unwrap())
    }

    #[test]
    fn documents_of_a_request_across_blocks() {
        let mut bulk = Bulk::default();
        let first = "{\"create\":{}}\n{\"index\":1}\n\n { \"index\" : {\"_index\":\"a\"}}\n";
        assert_eq!(documents(&mut bulk, first).unwrap(), "{\"index\":1}\n");
        assert_eq!(bulk.clone().runs(), [(Action::Create, 1), (Action::Index, 0)]);
        assert_eq!(documents(&mut bulk, "{\"b\":2}\n").unwrap(), "{\"b\":2}\n");
        assert_eq!(bulk.runs(), [(Action::Create, 1), (Action::Index, 1)]);
    }

    #[test]
    fn other_actions_are_refused_alone() {
        let mut bulk = Bulk::default();
        let block = "{\"delete\":{\"_id\":\"1\"}}\n{\"create\":{}}\n{\"a\":1}\n{\"update\":{}}\n{\"delete\":2}\n\
                     {\"create\":{}}\n{\"a\":2}\n{\"create\":{}}\n{\"a\":3}\n";
        assert_eq!(documents(&mut bulk, block).unwrap(), "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n");
        let expected =
            [(Action::Delete, 1), (Action::Create, 1), (Action::Update, 1), (Action::Create, 2)];
        assert_eq!(bulk.runs(), expected);
    }

    #[test]
    fn what_is_no_action_is_an_error_that_names_the_line() {
        for wrong in ["{\"created\":{}}", "x", "{", "{\"", "[]"] {
            let mut bulk = Bulk::default();
            let error =
                documents(&mut bulk, &format!("{{\"create\":{{}}}}\n{{}}\n{wrong}\n")).unwrap_err();
            assert_eq!(error, BulkError::NoAction { line: 3, found: wrong.into() });
            assert_eq!(bulk.runs(), [(Action::Create, 1)]);
        }
        let error = documents(&mut Bulk::default(), &"x".repeat(1000)).unwrap_err();
        assert!(error.to_string().len() < 300, "{error}");
    }

    #[test]
    fn actions_are_remembered_up_to_a_limit() {
        let mut bulk = Bulk::default();
        let pair = "{\"delete\":{}}\n{\"create\":{}}\n{}\n";
        let error = documents(&mut bulk, &pair.repeat(RUNS_MAX)).unwrap_err();
        assert_eq!(error, BulkError::TooMixed { line: 3 * RUNS_MAX as u64 / 2 + 1 });
        assert_eq!(bulk.runs().len(), RUNS_MAX);
    }
}
