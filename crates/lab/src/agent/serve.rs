//! The agent's side of the protocol.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Duration, timeout};

use super::coordinator::GREET_S_MAX;
use super::{Message, SILENCE_S_MAX, every_second, messages, send};
use crate::driver::{Driver, Open};
use crate::load::{self, Gate, LineSender, Setting, Stop, stopped};
use crate::measure::process::Watched;
use crate::results::{End, Outcome};
use crate::trial::{Role, Trial};

/// Time limit for the previous trial to end, s: if its coordinator is lost, this side notices that
/// a little later than the coordinator's side.
const BUSY_S_MAX: u64 = 5;

/// Connections at a time; another one is closed at once.
const CONNECTIONS_MAX: usize = 16;

/// Pause after a connection could not be accepted, for example because all file descriptors are in
/// use.
const ACCEPT_AGAIN: Duration = Duration::from_millis(200);

/// Runs trials until it is stopped, one at a time: with load from two coordinators neither
/// measurement would be valid. With a `secret`, only for coordinators that know it.
pub async fn serve(listener: TcpListener, open: Open, secret: Option<String>, mut stop: Stop) {
    let busy = Arc::new(Semaphore::new(1));
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let secret: Option<Arc<str>> = secret.map(Arc::from);
    loop {
        let accepted = tokio::select! {
            biased;
            () = stopped(&mut stop) => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_AGAIN).await;
            continue;
        };
        let Ok(connection) = connections.clone().try_acquire_owned() else { continue };
        let (busy, secret, stop) = (busy.clone(), secret.clone(), stop.clone());
        tokio::spawn(async move {
            // The coordinator knows what went wrong, or it is gone.
            let _ = serve_one(stream, open, secret.as_deref(), busy, stop).await;
            drop(connection);
        });
    }
}

/// The trial of a coordinator that introduces itself; the reason to refuse it otherwise.
async fn introduced(
    received: &mut mpsc::Receiver<Result<Message, String>>,
    secret: Option<&str>,
) -> Result<Result<Box<Trial>, String>, String> {
    let mut next = async || received.recv().await.unwrap_or_else(|| Err("it is gone".to_owned()));
    let hello = next().await?;
    if let Err(reason) = hello.greets() {
        return Ok(Err(format!("the coordinator {reason}")));
    }
    if secret.is_some_and(|secret| !hello.knows(secret)) {
        return Ok(Err("the coordinator does not know its secret: give the run the same \
                       --secret-file"
            .to_owned()));
    }
    match next().await? {
        Message::Run(trial) => Ok(Ok(trial)),
        _ => Ok(Err("the coordinator sent no trial".to_owned())),
    }
}

/// Runs the share of a trial, and reads again what this agent wrote; `None` if it was stopped.
async fn run_and_read_back(
    setting: Setting,
    driver: Arc<dyn Driver>,
    trial: Box<Trial>,
    lines: LineSender,
    mut stop: Stop,
) -> Option<End> {
    let place = setting.read_back.clone();
    let end = load::run_in(setting, driver, &trial, lines.clone(), stop.clone()).await?;
    let read_back = place?.lock().expect("nothing panics here").take();
    let is_for = trial.role == Role::Measure && end.outcome == Outcome::Completed;
    let Some(read_back) = read_back.filter(|_| is_for) else { return Some(end) };
    let (found, outcome, _) = tokio::select! {
        biased;
        () = stopped(&mut stop) => return None,
        read = read_back.run() => read,
    };
    for line in found {
        let _ = lines.send(line).await;
    }
    Some(End { outcome: outcome.unwrap_or(end.outcome), ..end })
}

async fn serve_one(
    stream: TcpStream,
    open: Open,
    secret: Option<&str>,
    busy: Arc<Semaphore>,
    mut stop: Stop,
) -> Result<(), String> {
    let _ = stream.set_nodelay(true);
    let (read, mut write) = stream.into_split();
    let mut received = messages(read);
    send(&mut write, &Message::hello(None)).await?;
    let limit = Duration::from_secs(GREET_S_MAX);
    let introduced = timeout(limit, introduced(&mut received, secret)).await;
    let trial = match introduced.map_err(|_| "it said nothing".to_owned())?? {
        Ok(trial) => trial,
        Err(reason) => return send(&mut write, &Message::Refused { reason }).await,
    };
    let Ok(_busy) = timeout(Duration::from_secs(BUSY_S_MAX), busy.acquire()).await else {
        let reason = "it is busy with a trial of another coordinator".to_owned();
        return send(&mut write, &Message::Refused { reason }).await;
    };
    let driver = match open(&trial.store) {
        Ok(driver) => driver,
        Err(error) => {
            return send(&mut write, &Message::Refused { reason: error.to_string() }).await;
        }
    };

    let (ready, mut is_ready) = oneshot::channel();
    let (go, gate) = oneshot::channel();
    let (lines, mut measured) = mpsc::channel(super::MESSAGES_MAX);
    let (stop_trial, trial_stop) = watch::channel(false);
    let setting = Setting {
        gate: Some(Gate { ready, go: gate }),
        watched: vec![Watched::generator()],
        host: false,
        read_back: Some(Arc::default()),
        ..Setting::default()
    };
    let mut running = tokio::spawn(run_and_read_back(setting, driver, trial, lines, trial_stop));
    let (mut go, mut waits, mut was_stopped) = (Some(go), true, false);
    let (mut alive, mut silent_s) = (every_second(), 0);
    // Until the receiver of the lines is gone.
    while silent_s <= SILENCE_S_MAX {
        tokio::select! {
            // Messages that have arrived are handled before silence is counted.
            biased;
            () = stopped(&mut stop), if !was_stopped => {
                was_stopped = true;
                let _ = stop_trial.send(true);
            }
            message = received.recv() => match message {
                Some(Ok(Message::Alive)) => silent_s = 0,
                Some(Ok(Message::Go { after_ms })) => {
                    if let Some(go) = go.take() {
                        let _ = go.send(Duration::from_millis(after_ms));
                    }
                }
                Some(Ok(Message::Stop)) => drop(stop_trial.send(true)),
                Some(Ok(_)) | Some(Err(_)) | None => break,
            },
            is_ready = &mut is_ready, if waits => {
                waits = false;
                if is_ready.is_ok() && send(&mut write, &Message::Ready).await.is_err() {
                    break;
                }
            }
            line = measured.recv() => match line {
                Some(line) => {
                    if send(&mut write, &Message::Line(Box::new(line))).await.is_err() {
                        break;
                    }
                }
                None => {
                    let end = (&mut running).await.map_err(|error| error.to_string())?;
                    return send(&mut write, &Message::End(end)).await;
                }
            },
            _ = alive.tick() => {
                silent_s += 1;
                if send(&mut write, &Message::Alive).await.is_err() {
                    break;
                }
            }
        }
    }
    let _ = stop_trial.send(true);
    drop(measured);
    let _ = running.await;
    Err("the coordinator is gone".to_owned())
}
