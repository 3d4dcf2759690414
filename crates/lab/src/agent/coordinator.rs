//! The coordinator's side of the protocol.

use futures_util::future::try_join_all;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, interval_at, timeout};

use super::merge::Merger;
use super::{Message, SILENCE_S_MAX, every_second, messages, send};
use crate::load::{LineSender, Stop, stopped};
use crate::measure::process::{Sampler, Watched};
use crate::results::{End, GENERATOR_ELSEWHERE, Line, Outcome};
use crate::trial::{Share, Trial, Work};

/// Time limit for an agent to accept a connection and send its greeting.
pub(super) const GREET_S_MAX: u64 = 10;

/// Time limit until all agents are connected to the store: their limit for each connection, plus
/// some margin.
const READY_S_MAX: u64 = 120;

/// Delay from when all agents are ready until they start: longer than it takes to notify all of
/// them.
const START_AFTER: Duration = Duration::from_millis(200);

/// Time limit for agents to send their last message after they were told to stop.
const STOP_S_MAX: u64 = 3;

/// A message from an agent, or its loss.
type From = (usize, Result<Message, String>);

/// Runs `trial` on all `agents` (`host:port`), whose secret is `secret`, each with its share, as
/// [`crate::load::run`] does in this process alone. The processes `watched` on this machine, and
/// the whole machine, are measured as well.
pub async fn run(
    agents: &[String],
    secret: Option<&str>,
    trial: &Trial,
    watched: Vec<Watched>,
    lines: LineSender,
    mut stop: Stop,
) -> Option<End> {
    // A time that is none is refused by the agents.
    let warm_up = match &trial.work {
        Work::Load { load, .. } => Duration::try_from_secs_f64(load.warm_up_s).unwrap_or_default(),
        Work::RealTime(_) => Duration::ZERO,
    };
    let mut coordinator = match Coordinator::connect(agents, secret, trial).await {
        Ok(coordinator) => coordinator,
        Err(message) => return Some(End { outcome: Outcome::Failed { message }, seconds: 0.0 }),
    };
    coordinator.run(watched, warm_up, &lines, &mut stop).await
}

struct Coordinator<'a> {
    agents: &'a [String],
    writers: Vec<OwnedWriteHalf>,
    received: mpsc::Receiver<From>,
    ends: Vec<Option<End>>,
    /// Whether each agent is on another machine.
    elsewhere: Vec<bool>,
    /// For how many seconds each agent has been silent; `None` for an agent that has finished or is
    /// lost.
    silent_s: Vec<Option<u32>>,
}

impl<'a> Coordinator<'a> {
    async fn connect(
        agents: &'a [String],
        secret: Option<&str>,
        trial: &Trial,
    ) -> Result<Coordinator<'a>, String> {
        let greeting = (0u32..).zip(agents).map(|(index, address)| async move {
            let share = Share { index, of: agents.len() as u32 };
            let part = Trial { share, ..trial.clone() };
            let limit = Duration::from_secs(GREET_S_MAX);
            let greeted = timeout(limit, greet(address, secret, part)).await;
            greeted
                .unwrap_or_else(|_| Err(format!("did not answer within {GREET_S_MAX} s")))
                .map_err(|reason| {
                    format!("agent {address}: {reason}. Start it with: loginson-lab agent --listen {address}")
                })
        });
        let (sender, received) = mpsc::channel(super::MESSAGES_MAX);
        let (mut writers, mut elsewhere) = (Vec::new(), Vec::new());
        for (agent, greeted) in try_join_all(greeting).await?.into_iter().enumerate() {
            let Greeted { writer, mut messages, is_elsewhere } = greeted;
            writers.push(writer);
            elsewhere.push(is_elsewhere);
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Some(message) = messages.recv().await {
                    if sender.send((agent, message)).await.is_err() {
                        return;
                    }
                }
            });
        }
        let (ends, silent_s) = (vec![None; agents.len()], vec![Some(0); agents.len()]);
        Ok(Coordinator { agents, writers, received, ends, elsewhere, silent_s })
    }

    async fn run(
        &mut self,
        watched: Vec<Watched>,
        warm_up: Duration,
        lines: &LineSender,
        stop: &mut Stop,
    ) -> Option<End> {
        let mut merger = Merger::new(self.agents.len());
        let mut sampler = Sampler::new(watched, true);
        // Agents that are ready to start. Once all are, the seconds of the trial are counted here
        // too.
        let mut ready = 0;
        let started = Instant::now();
        let mut seconds =
            interval_at(started + Duration::from_secs(READY_S_MAX), Duration::from_secs(1));
        let mut second = None;
        let mut failure = None;
        let mut was_stopped = false;
        // The deadline for agents that were told to stop.
        let mut patience: Option<Instant> = None;
        let mut alive = every_second();
        while self.silent_s.iter().any(Option::is_some) {
            let give_up = async {
                match patience {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Messages that have arrived are handled before silence is counted.
                biased;
                () = give_up => break,
                () = stopped(stop), if !was_stopped => was_stopped = true,
                received = self.received.recv() => {
                    let Some((agent, message)) = received else { break };
                    match self.take(agent, message, &mut merger) {
                        Ok(false) => {}
                        Ok(true) => {
                            ready += 1;
                            if ready == self.agents.len() {
                                let go = Message::Go { after_ms: START_AFTER.as_millis() as u64 };
                                self.tell(&go).await;
                                let measured_from = Instant::now() + START_AFTER + warm_up;
                                seconds = interval_at(measured_from, Duration::from_secs(1));
                            }
                        }
                        Err(message) => drop(failure.get_or_insert(message)),
                    }
                }
                _ = alive.tick() => {
                    self.tell(&Message::Alive).await;
                    if let Some(message) = self.listen(&mut merger) {
                        failure.get_or_insert(message);
                    }
                }
                _ = seconds.tick(), if failure.is_none() => {
                    if ready < self.agents.len() {
                        failure = Some(format!(
                            "{} of {} agents were not connected to the store within {READY_S_MAX} s",
                            self.agents.len() - ready,
                            self.agents.len()
                        ));
                    } else {
                        match second {
                            None => sampler.restart(),
                            Some(second) => {
                                for resource in sampler.sample(second) {
                                    was_stopped |= lines.send(Line::Resource(resource)).await.is_err();
                                }
                            }
                        }
                        second = Some(second.map_or(0, |second| second + 1));
                    }
                }
            }
            for line in merger.over() {
                was_stopped |= lines.send(line).await.is_err();
            }
            if (was_stopped || failure.is_some()) && patience.is_none() {
                self.tell(&Message::Stop).await;
                patience = Some(Instant::now() + Duration::from_secs(STOP_S_MAX));
            }
        }
        let mut rest = merger.rest();
        // The last second is usually incomplete; without it the servers' processor time would be
        // too low.
        if let Some(second) = second {
            rest.extend(sampler.sample(second).into_iter().map(Line::Resource));
        }
        for line in rest {
            let _ = lines.send(line).await;
        }
        if was_stopped {
            return None;
        }
        let ends: Vec<End> = self.ends.drain(..).flatten().collect();
        let seconds = ends.iter().map(|end| end.seconds).fold(0.0, f64::max);
        let outcomes = ends.into_iter().map(|end| end.outcome);
        let failed = failure.map(|message| Outcome::Failed { message });
        Some(End { outcome: together(outcomes.chain(failed).collect()), seconds })
    }

    /// Handles a message; returns whether the agent is now ready, or why the trial cannot continue.
    fn take(
        &mut self,
        agent: usize,
        message: Result<Message, String>,
        merger: &mut Merger,
    ) -> Result<bool, String> {
        if self.silent_s[agent].is_none() {
            // After its last message an agent closes the connection.
            return Ok(false);
        }
        self.silent_s[agent] = Some(0);
        let name = &self.agents[agent];
        let reason = match message {
            Ok(Message::Alive) => return Ok(false),
            Ok(Message::Ready) => return Ok(true),
            Ok(Message::Line(mut line)) => {
                if let Line::Resource(resource) = &mut *line
                    && self.elsewhere[agent]
                {
                    // A generator elsewhere takes nothing from the processors of this machine.
                    resource.process = GENERATOR_ELSEWHERE.to_owned();
                }
                match merger.take(agent, *line) {
                    Ok(()) => return Ok(false),
                    Err(reason) => format!("agent {name} was lost: {reason}"),
                }
            }
            Ok(Message::End(Some(end))) => {
                let ended_well = end.outcome == Outcome::Completed;
                self.ends[agent] = Some(end);
                if ended_well {
                    self.gone(agent, merger);
                    return Ok(false);
                }
                // The others would continue with a part of the load.
                format!("agent {name} ended before")
            }
            Ok(Message::End(None)) => format!("agent {name} was stopped"),
            Ok(Message::Refused { reason }) => format!("agent {name}: {reason}"),
            Ok(other) => {
                format!("agent {name} was lost: it sent {other:?}, which has no place here")
            }
            Err(reason) => lost(name, &reason),
        };
        self.gone(agent, merger);
        Err(reason)
    }

    /// A second has passed. Returns why the trial cannot continue if an agent was silent for too
    /// long.
    fn listen(&mut self, merger: &mut Merger) -> Option<String> {
        for silent_s in self.silent_s.iter_mut().flatten() {
            *silent_s += 1;
        }
        let agent = self.silent_s.iter().position(|silent| *silent > Some(SILENCE_S_MAX))?;
        self.gone(agent, merger);
        let reason = format!("it said nothing for {SILENCE_S_MAX} s");
        Some(lost(&self.agents[agent], &reason))
    }

    /// No more messages are expected of an agent.
    fn gone(&mut self, agent: usize, merger: &mut Merger) {
        self.silent_s[agent] = None;
        merger.ended(agent);
    }

    /// Sends a message to all agents; a lost one is noticed by its connection.
    async fn tell(&mut self, message: &Message) {
        for writer in &mut self.writers {
            let _ = send(writer, message).await;
        }
    }
}

/// The outcome of a trial of several agents: a wrong answer to any of them, else the first that is
/// not as it should be.
fn together(outcomes: Vec<Outcome>) -> Outcome {
    let is_wrong = |outcome: &Outcome| matches!(outcome, Outcome::Wrong { .. });
    let is_bad = |outcome: &Outcome| *outcome != Outcome::Completed;
    let place = outcomes.iter().position(is_wrong).or_else(|| outcomes.iter().position(is_bad));
    place.map_or(Outcome::Completed, |place| outcomes[place].clone())
}

/// The remedy for a lost agent.
fn lost(agent: &str, reason: &str) -> String {
    format!(
        "agent {agent} was lost: {reason}. Look whether its machine is well, start it again, and do this trial again: \
         loginson-lab resume --retry-failed"
    )
}

/// An agent that has its share of a trial.
struct Greeted {
    writer: OwnedWriteHalf,
    messages: mpsc::Receiver<Result<Message, String>>,
    is_elsewhere: bool,
}

/// Connects to an agent and sends it its share.
async fn greet(address: &str, secret: Option<&str>, part: Trial) -> Result<Greeted, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let _ = stream.set_nodelay(true);
    // This machine may be reached by its own address as well.
    let is_elsewhere = match (stream.peer_addr(), stream.local_addr()) {
        (Ok(peer), Ok(own)) => !peer.ip().is_loopback() && peer.ip() != own.ip(),
        _ => false,
    };
    let (read, mut writer) = stream.into_split();
    let mut messages = messages(read);
    send(&mut writer, &Message::hello(secret)).await?;
    match messages.recv().await {
        // An agent says no more to a coordinator of another version or secret.
        Some(Ok(hello)) => hello.greets()?,
        Some(Err(reason)) => return Err(reason),
        None => return Err("the connection was closed".to_owned()),
    }
    send(&mut writer, &Message::Run(Box::new(part))).await?;
    Ok(Greeted { writer, messages, is_elsewhere })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_to_one_agent_is_not_hidden_by_the_failure_of_another() {
        let failed = || Outcome::Failed { message: "it is gone".to_owned() };
        let wrong = || Outcome::Wrong { message: "got 1 row".to_owned() };
        for (outcomes, expected) in [
            (vec![], Outcome::Completed),
            (vec![Outcome::Completed, Outcome::Completed], Outcome::Completed),
            (vec![Outcome::Completed, failed()], failed()),
            (vec![failed(), Outcome::Completed, wrong(), failed()], wrong()),
        ] {
            assert_eq!(together(outcomes), expected);
        }
    }
}
