//! The coordinator's side.

use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, interval_at, timeout};

use super::merge::Merger;
use super::{Message, messages, send};
use crate::load::{Lines, Stop, stopped};
use crate::measure::process::{Sampler, Watched};
use crate::results::{End, Line, Outcome};
use crate::trial::{Share, Trial};

/// Longest wait for an agent to answer a connection and its greeting.
const GREET_S_MAX: u64 = 10;

/// Longest wait for all agents to be connected to the store: theirs for each connection, and some more.
const READY_S_MAX: u64 = 120;

/// From when all agents are ready until they start: longer than it takes to tell all of them.
const START_AFTER: Duration = Duration::from_millis(200);

/// Longest wait for agents to say their end once they were told to stop.
const STOP_S_MAX: u64 = 3;

/// What came from an agent.
type From = (usize, Result<Message, String>);

/// Runs `trial` on all `agents` (`host:port`), each with its share, as [`crate::load::run`] does on this process alone.
/// `watched` are the processes here that are measured besides, with the whole machine.
pub async fn run(
    agents: &[String],
    trial: &Trial,
    watched: Vec<Watched>,
    lines: Lines,
    mut stop: Stop,
) -> Option<End> {
    let mut coordinator = match Coordinator::connect(agents, trial).await {
        Ok(coordinator) => coordinator,
        Err(message) => return Some(End { outcome: Outcome::Failed { message }, seconds: 0.0 }),
    };
    coordinator.run(watched, &lines, &mut stop).await
}

struct Coordinator<'a> {
    agents: &'a [String],
    writers: Vec<OwnedWriteHalf>,
    received: mpsc::Receiver<From>,
    ends: Vec<Option<End>>,
    /// Agents that have not said their end.
    left: usize,
}

impl<'a> Coordinator<'a> {
    async fn connect(agents: &'a [String], trial: &Trial) -> Result<Coordinator<'a>, String> {
        let (sender, received) = mpsc::channel(super::MESSAGES_MAX);
        let mut writers = Vec::new();
        for (index, address) in (0u32..).zip(agents) {
            let share = Share { index, of: agents.len() as u32 };
            let part = Trial { share, ..trial.clone() };
            let limit = Duration::from_secs(GREET_S_MAX);
            let greeted = timeout(limit, greet(address, part)).await;
            let (writer, mut messages) = greeted
                .unwrap_or_else(|_| Err(format!("did not answer within {GREET_S_MAX} s")))
                .map_err(|reason| {
                    format!("agent {address}: {reason}. Start it with: loginson-lab agent --listen {address}")
                })?;
            writers.push(writer);
            let sender = sender.clone();
            tokio::spawn(async move {
                while let Some(message) = messages.recv().await {
                    if sender.send((index as usize, message)).await.is_err() {
                        return;
                    }
                }
            });
        }
        let left = agents.len();
        Ok(Coordinator { agents, writers, received, ends: vec![None; left], left })
    }

    async fn run(&mut self, watched: Vec<Watched>, lines: &Lines, stop: &mut Stop) -> Option<End> {
        let mut merger = Merger::new(self.agents.len());
        let mut sampler = Sampler::new(watched, true);
        // Agents that are ready to start. After all are, the seconds of the trial are counted here too.
        let mut ready = 0;
        let started = Instant::now();
        let mut seconds =
            interval_at(started + Duration::from_secs(READY_S_MAX), Duration::from_secs(1));
        let mut second = None;
        let mut failure = None;
        let mut was_stopped = false;
        // Until when agents are waited for, once they were told to stop.
        let mut patience: Option<Instant> = None;
        while self.left > 0 {
            let give_up = async {
                match patience {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
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
                                seconds = interval_at(Instant::now() + START_AFTER, Duration::from_secs(1));
                            }
                        }
                        Err(message) => drop(failure.get_or_insert(message)),
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
        for line in merger.rest() {
            let _ = lines.send(line).await;
        }
        if was_stopped {
            return None;
        }
        let ends: Vec<End> = self.ends.drain(..).flatten().collect();
        let seconds = ends.iter().map(|end| end.seconds).fold(0.0, f64::max);
        let bad = ends.into_iter().map(|end| end.outcome).find(|o| *o != Outcome::Completed);
        let failed = failure.map(|message| Outcome::Failed { message });
        Some(End { outcome: bad.or(failed).unwrap_or(Outcome::Completed), seconds })
    }

    /// Takes a message; whether the agent is now ready, or why the trial cannot go on.
    fn take(
        &mut self,
        agent: usize,
        message: Result<Message, String>,
        merger: &mut Merger,
    ) -> Result<bool, String> {
        let name = &self.agents[agent];
        let reason = match message {
            Ok(Message::Ready) => return Ok(true),
            Ok(Message::Line(line)) => match merger.take(agent, *line) {
                Ok(()) => return Ok(false),
                Err(reason) => reason,
            },
            Ok(Message::End(end)) => {
                self.left -= 1;
                merger.ended(agent);
                let Some(end) = end else { return Err(format!("agent {name} was stopped")) };
                let ended_well = end.outcome == Outcome::Completed;
                self.ends[agent] = Some(end);
                // The others would go on with a part of the load.
                return if ended_well {
                    Ok(false)
                } else {
                    Err(format!("agent {name} ended before"))
                };
            }
            Ok(Message::Refused { reason }) => {
                self.left -= 1;
                return Err(format!("agent {name}: {reason}"));
            }
            Ok(other) => format!("it sent {other:?}, which has no place here"),
            // After its end an agent closes the connection.
            Err(_) if self.ends[agent].is_some() => return Ok(false),
            Err(reason) => {
                self.left -= 1;
                format!("{reason}. Look whether its machine is well, start it again, and resume")
            }
        };
        merger.ended(agent);
        Err(format!("agent {name} was lost: {reason}"))
    }

    /// Tells all agents; one that is gone is seen by its connection.
    async fn tell(&mut self, message: &Message) {
        for writer in &mut self.writers {
            let _ = send(writer, message).await;
        }
    }
}

/// Connects to an agent and gives it its part.
async fn greet(
    address: &str,
    part: Trial,
) -> Result<(OwnedWriteHalf, mpsc::Receiver<Result<Message, String>>), String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let _ = stream.set_nodelay(true);
    let (read, mut write) = stream.into_split();
    let mut received = messages(read);
    send(&mut write, &Message::hello()).await?;
    match received.recv().await {
        Some(Ok(hello)) => hello.greets()?,
        Some(Err(reason)) => return Err(reason),
        None => return Err("the connection was closed".to_owned()),
    }
    send(&mut write, &Message::Run(Box::new(part))).await?;
    Ok((write, received))
}
