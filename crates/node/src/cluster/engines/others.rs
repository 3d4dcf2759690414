//! The other nodes of a cluster, and calls of all of them: several at a time, each within a time.
//! Whoever does not answer is named, with the reason.

use std::sync::Arc;
use std::time::Duration;

use cluster::{NodeId, Role};
use serde::Serialize;
use serde_json::Value;
use ureq::http::{Method, StatusCode};

use super::Engines;
use crate::cluster::node::{HandedOn, NodeAnswer};
use crate::cluster::{Cluster, Node, NodeError};

/// Another node of the cluster, as of the last heartbeat.
pub struct OtherNode {
    /// Its id.
    pub id: NodeId,
    /// Its name, for people.
    pub name: String,
    /// What it does.
    pub roles: Vec<Role>,
    /// How it is called; none while it does not heartbeat.
    pub to: Option<Arc<Node>>,
    /// How long it has not been heard of.
    pub silent: Duration,
}

impl OtherNode {
    /// That it cannot be asked, as a sentence with its name.
    pub fn silence(&self) -> String {
        match self.to {
            Some(_) => format!("{} does not answer", self.name),
            None => {
                format!("{} has not been heard of for {} s", self.name, self.silent.as_secs())
            }
        }
    }
}

/// A node that did not do what all were asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutOfReach {
    /// Its name, for people.
    pub node: String,
    /// Why, as a sentence with its name.
    pub error: String,
    /// Its id.
    #[serde(skip)]
    pub id: NodeId,
    /// How long it has not been heard of, where it does not heartbeat.
    #[serde(skip)]
    pub gone: Option<Duration>,
}

/// What all other nodes answered.
pub struct OthersAnswered<T> {
    /// Those that did, in the order of [`Engines::others`].
    pub answers: Vec<(OtherNode, T)>,
    /// The others: those that failed before those that were not asked.
    pub out_of_reach: Vec<OutOfReach>,
}

impl Engines {
    /// All nodes but this one, also those that do not heartbeat.
    pub fn others(&self) -> Vec<OtherNode> {
        let view = self.view();
        let others = view.nodes.into_iter().filter(|row| row.info.node != self.info.node);
        let other = |row: cluster::NodeRow| {
            let is_live = row.silent < self.config.lease;
            OtherNode {
                id: row.info.node,
                to: is_live.then(|| self.node(&row.info.address).ok()).flatten(),
                name: row.info.name,
                roles: row.info.roles,
                silent: row.silent,
            }
        };
        others.map(other).collect()
    }

    /// Calls `work` with each other node that heartbeats and answered last, several at a time.
    /// Blocks. What time a call has is for `work` to say.
    pub fn each_other<T: Send>(
        &self,
        work: impl Fn(&Node) -> Result<T, NodeError> + Sync,
    ) -> OthersAnswered<T> {
        each_of(self.others(), work)
    }

    /// Asks each other node for the JSON at a path, which has to come within `time_max`. Blocks.
    pub fn ask_others(&self, time_max: Duration, path: &str) -> OthersAnswered<Value> {
        self.each_other(|node| {
            node.asked(time_max, Method::GET, path)?.ok_or_else(|| {
                let status = StatusCode::NOT_FOUND.as_u16();
                NodeError::new(format!("{} answers with status {status}", node.name))
            })
        })
    }
}

fn each_of<T: Send>(
    others: Vec<OtherNode>,
    work: impl Fn(&Node) -> Result<T, NodeError> + Sync,
) -> OthersAnswered<T> {
    let (live, silent): (Vec<OtherNode>, Vec<OtherNode>) =
        others.into_iter().partition(|other| other.to.as_ref().is_some_and(|to| !to.is_away()));
    let nodes: Vec<Arc<Node>> = live.iter().filter_map(|other| other.to.clone()).collect();
    let results = Cluster::each(&nodes, work);
    let mut answered = OthersAnswered { answers: Vec::new(), out_of_reach: Vec::new() };
    for ((other, node), result) in live.into_iter().zip(&nodes).zip(results) {
        match result {
            Ok(answer) => answered.answers.push((other, answer)),
            Err(error) => {
                if error.is_away {
                    // The next calls do not wait for it.
                    node.was_silent();
                }
                let (id, node) = (other.id, other.name);
                let failed = OutOfReach { node, error: error.message, id, gone: None };
                answered.out_of_reach.push(failed);
            }
        }
    }
    answered.out_of_reach.extend(silent.into_iter().map(|other| OutOfReach {
        error: other.silence(),
        id: other.id,
        gone: other.to.is_none().then_some(other.silent),
        node: other.name,
    }));
    answered
}

impl Node {
    /// The JSON that it answers with; none where it does not know what the call is about.
    ///
    /// Errors: it does not answer within `time_max`, or with another status than a success.
    pub fn asked(
        &self,
        time_max: Duration,
        method: Method,
        path: &str,
    ) -> Result<Option<Value>, NodeError> {
        let call = HandedOn { method, path: path.to_owned(), content_type: None, body: Vec::new() };
        let NodeAnswer { status, body, .. } = self.hand_on_within(time_max, call)?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => Ok(Some(body)),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(NodeError::new(self.is_stranger()))
            }
            status => {
                let why = body["error"].as_str().map_or_else(
                    || format!("{} answers with status {}", self.name, status.as_u16()),
                    |why| format!("{}: {why}", self.name),
                );
                Err(NodeError::new(why))
            }
        }
    }

    /// That it does not know this node for one of the cluster, and what to do.
    pub fn is_stranger(&self) -> String {
        format!(
            "{} does not take this node for another one of the cluster; give [cluster] token_file a token with the role \
             node, which sees all lines",
            self.name
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    fn other(name: &str, is_live: bool) -> OtherNode {
        let node =
            || Node::named(Some(name.to_owned()), &format!("http://{name}.invalid:1"), None, None);
        OtherNode {
            id: NodeId(u32::from(name.as_bytes()[0])),
            name: name.to_owned(),
            roles: Vec::new(),
            to: is_live.then(|| Arc::new(node().unwrap())),
            silent: Duration::from_secs(70),
        }
    }

    #[test]
    fn those_that_answer_are_asked_and_the_others_are_named() {
        let away = other("away", true);
        away.to.as_ref().unwrap().was_silent();
        let all =
            [other("gone", false), other("b", true), away, other("fails", true), other("c", true)];
        let refuses = other("refuses", true);
        let nodes = [&all[3], &refuses].map(|other| other.to.clone().unwrap());
        let asked = Mutex::new(Vec::new());
        let answered = each_of(all.into_iter().chain([refuses]).collect(), |node| {
            asked.lock().unwrap().push(node.name.clone());
            match node.name.as_str() {
                "fails" => Err(NodeError::away("fails is away: it did not answer in time".into())),
                "refuses" => Err(NodeError::new("refuses answers with status 500".into())),
                name => Ok(name.len()),
            }
        });
        let mut asked = asked.into_inner().unwrap();
        asked.sort();
        assert_eq!(asked, ["b", "c", "fails", "refuses"]);
        let names: Vec<(&str, usize)> =
            answered.answers.iter().map(|(other, length)| (other.name.as_str(), *length)).collect();
        assert_eq!(names, [("b", 1), ("c", 1)]);
        assert_eq!(
            json!(answered.out_of_reach),
            json!([
                {"node": "fails", "error": "fails is away: it did not answer in time"},
                {"node": "refuses", "error": "refuses answers with status 500"},
                {"node": "gone", "error": "gone has not been heard of for 70 s"},
                {"node": "away", "error": "away does not answer"},
            ])
        );
        let gone: Vec<Option<Duration>> =
            answered.out_of_reach.iter().map(|one| one.gone).collect();
        assert_eq!(gone, [None, None, Some(Duration::from_secs(70)), None]);
        // Who is silent is not asked by the next calls; who refuses is.
        assert_eq!(nodes.map(|node| node.is_away()), [true, false]);
    }
}
