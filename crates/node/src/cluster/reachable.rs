//! Whether the stores of a copy answer, so that a server that answers for them knows before a query
//! does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use platform::placement::Role;
use platform::threads::STACK_BYTES;

use super::{Cluster, Node, NodeError};

/// The pause between two looks.
const TICK: Duration = Duration::from_secs(2);

impl Cluster {
    /// Why no complete answer is possible at present; none if one is, or in a cluster on engines.
    pub fn unready(&self) -> Option<String> {
        self.unready.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the stores from time to time, as long as the cluster is used. Does nothing in a
    /// cluster on engines.
    ///
    /// Errors: a thread cannot be started.
    pub fn watch(self: &Arc<Self>) -> std::io::Result<()> {
        if self.copies.is_empty() {
            return Ok(());
        }
        let cluster = Arc::downgrade(self);
        let work = move || {
            platform::placement::enter(Role::Background);
            watch(&cluster);
        };
        let thread = std::thread::Builder::new().name("stores-watch".to_owned());
        thread.stack_size(STACK_BYTES).spawn(work).map(drop)
    }

    fn look(&self) {
        let all: Vec<Arc<Node>> = self.nodes().cloned().collect();
        let mut answers = Cluster::each(&all, answers).into_iter();
        let copies: Vec<Vec<Result<(), String>>> = self
            .copies
            .iter()
            .map(|copy| answers.by_ref().take(copy.nodes.len()).map(error_text).collect())
            .collect();
        let unready = no_answer(&copies);
        let mut known = self.unready.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*known, &unready) {
            (None, Some(why)) => tracing::warn!("{why}"),
            (Some(_), None) => tracing::info!("the stores of a copy answer again"),
            _ => {}
        }
        *known = unready;
    }
}

fn watch(cluster: &Weak<Cluster>) {
    while let Some(cluster) = cluster.upgrade() {
        // Without this thread, readiness would tell for ever what it told last.
        if catch_unwind(AssertUnwindSafe(|| cluster.look())).is_err() {
            tracing::error!("a bug in looking whether the stores answer; it is tried again");
        }
        drop(cluster);
        std::thread::sleep(TICK);
    }
}

/// Whether a store has opened its lines. One that answers for others besides may not be ready
/// itself because of them, so its readiness is not what counts.
fn answers(node: &Node) -> Result<(), NodeError> {
    let status = node.call("GET", "/api/v1/status", &[])?;
    match status["store"].is_object() {
        true => Ok(()),
        false => Err(NodeError::away(format!("store {} is starting", node.name))),
    }
}

fn error_text(result: Result<(), NodeError>) -> Result<(), String> {
    result.map_err(|error| error.message)
}

/// Why the lines cannot be read whole: neither from one copy, nor each stripe from some copy.
/// `copies` has what each store answered.
fn no_answer(copies: &[Vec<Result<(), String>>]) -> Option<String> {
    if copies.iter().any(|stores| stores.iter().all(Result::is_ok)) {
        return None;
    }
    let stripes = copies.first().map_or(0, Vec::len);
    let has_stripes = copies.iter().all(|copy| copy.len() == stripes);
    let answers = |stripe: usize| copies.iter().any(|copy| copy[stripe].is_ok());
    if has_stripes && (0..stripes).all(answers) {
        return None;
    }
    let errors: Vec<&str> = copies
        .iter()
        .flatten()
        .filter_map(|store| store.as_ref().err())
        .map(String::as_str)
        .collect();
    Some(format!("no copy of the lines can be read whole: {}", errors.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_whole_copy_is_enough_or_one_store_of_each_stripe() {
        let ok = || Ok(());
        let away = |name: &str| Err(format!("store {name} is away"));
        assert_eq!(no_answer(&[vec![ok(), ok()]]), None);
        assert_eq!(no_answer(&[vec![ok(), away("a2")], vec![ok(), ok()]]), None);
        assert_eq!(no_answer(&[vec![ok(), away("a2")], vec![away("b1"), ok()]]), None);
        let expected =
            "no copy of the lines can be read whole: store a2 is away; store b2 is away".to_owned();
        assert_eq!(no_answer(&[vec![ok(), away("a2")], vec![ok(), away("b2")]]), Some(expected));
        // Copies of different widths have no stripes.
        assert!(no_answer(&[vec![ok(), away("a2")], vec![away("b1")]]).is_some());
    }
}
