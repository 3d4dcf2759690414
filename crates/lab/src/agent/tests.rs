//! Agents and coordinator over real sockets, with the driver that does nothing.

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use super::*;
use crate::driver::null;
use crate::results::Outcome;
use crate::trial::{Load, Role};
use crate::workload::Workload;

fn trial(records: u64, seconds: Option<f64>) -> Trial {
    let workload = match seconds {
        None => Workload::LogWrites { records },
        Some(_) => Workload::LogReads { records },
    };
    let load = Load {
        threads: 4,
        ramp_s: 0.0,
        operations: None,
        operations_per_thread: None,
        seconds,
        target_per_s: Some(2000.0),
        warm_up_s: 0.0,
        until_visible: false,
        batch_rows: 1,
    };
    Trial { role: Role::Limit, ..Trial::example(null::NAME, workload, load) }
}

/// Starts an agent in this process; returns its address, and a handle that stops it.
async fn agent() -> (String, watch::Sender<bool>) {
    agent_with(None).await
}

/// The same with a secret.
async fn agent_with(secret: Option<&str>) -> (String, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (stop, stopped) = watch::channel(false);
    let secret = secret.map(str::to_owned);
    tokio::spawn(serve(listener, null::open, secret, stopped));
    (address, stop)
}

/// An agent that sends these lines and closes the connection.
async fn liar(lines: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(lines.as_bytes()).await;
            // Waits for the trial, if it is sent: closing with unread data would be a reset.
            let has_trial = |seen: &[u8]| {
                seen.ends_with(b"\n") && seen.windows(5).any(|part| part == b"\"run\"")
            };
            let mut seen = Vec::new();
            if lines.is_empty() {
                let _ = stream.shutdown().await;
            }
            while !has_trial(&seen) {
                match stream.read_buf(&mut seen).await {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
            }
        }
    });
    address
}

async fn coordinate(agents: &[String], trial: &Trial) -> (Option<End>, Vec<Line>) {
    let (lines, mut received) = mpsc::channel(16);
    let (_stop, stop) = watch::channel(false);
    let collect = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Some(line) = received.recv().await {
            all.push(line);
        }
        all
    });
    let end = run(agents, None, trial, Vec::new(), lines, stop).await;
    (end, collect.await.unwrap())
}

fn message(end: Option<End>) -> String {
    match end.unwrap().outcome {
        Outcome::Failed { message } => message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_share_a_trial_and_their_lines_add_up() {
    let (first, _keep) = agent().await;
    let (second, _keep_too) = agent().await;
    let agents = [first, second];
    for _ in 0..2 {
        let (end, lines) = coordinate(&agents, &trial(1000, None)).await;
        assert_eq!(end.unwrap().outcome, Outcome::Completed);
        let counts = lines.iter().map(|line| match line {
            Line::Second(second) => second.count,
            _ => 0,
        });
        assert_eq!(counts.sum::<u64>(), 1000);
    }
}

#[tokio::test]
async fn an_agent_of_another_version_or_that_is_lost_ends_the_trial() {
    let (good, _keep) = agent().await;
    let hello = r#"{"hello":{"protocol":3,"lab_version":"0"}}"#;
    let cases = [
        ("", "connection was closed"),
        ("{\"hello\":{\"protocol\":7,\"lab_version\":\"9.9\"}}\n", "version 7 of the protocol"),
        ("\"ready\"\n", "did not say which version"),
        ("rubbish\n", "expected value"),
    ];
    for (lines, expected) in cases {
        let bad = liar(lines).await;
        let (end, _) = coordinate(&[good.clone(), bad], &trial(100, Some(60.0))).await;
        let message = message(end);
        assert!(message.contains(expected), "{lines}: {message}");
    }
    for (after, expected) in
        [("", "was lost"), ("\n\"ready\"", "was lost"), ("\n\"stop\"", "no place here")]
    {
        let lines: &'static str = format!("{hello}{after}\n").leak();
        let bad = liar(lines).await;
        let (end, _) = coordinate(&[good.clone(), bad], &trial(100, Some(60.0))).await;
        let message = message(end);
        assert!(message.contains(expected), "{after}: {message}");
    }
    let (end, _) = coordinate(&["127.0.0.1:1".to_owned()], &trial(100, None)).await;
    let message = message(end);
    assert!(message.contains("loginson-lab agent --listen"), "{message}");
}

#[tokio::test]
async fn lines_have_a_longest_length() {
    let (address, _keep) = agent().await;
    let stream = TcpStream::connect(&address).await.unwrap();
    let (read, mut write) = stream.into_split();
    let mut received = messages(read);
    assert_eq!(received.recv().await.unwrap(), Ok(Message::hello(None)));
    // The agent closes before it has read everything.
    let _ = write.write_all(&vec![b'x'; 2 * LINE_BYTES_MAX as usize]).await;
    assert!(received.recv().await.unwrap().is_err());
}

#[tokio::test]
async fn an_agent_takes_one_trial_at_a_time() {
    let (address, _keep) = agent().await;
    let stream = TcpStream::connect(&address).await.unwrap();
    let (read, mut write) = stream.into_split();
    let mut received = messages(read);
    assert_eq!(received.recv().await.unwrap(), Ok(Message::hello(None)));
    send(&mut write, &Message::hello(None)).await.unwrap();
    send(&mut write, &Message::Run(Box::new(trial(100, Some(60.0))))).await.unwrap();
    assert_eq!(received.recv().await.unwrap(), Ok(Message::Ready));
    let (end, _) = coordinate(&[address], &trial(10, None)).await;
    assert!(message(end).contains("busy"));
    // The first coordinator disconnects; the agent stops its trial and becomes free.
    drop((received, write));
}

#[tokio::test]
async fn a_stop_reaches_the_agents() {
    let (address, _keep) = agent().await;
    let (lines, mut received) = mpsc::channel(16);
    let (stop_sender, stop) = watch::channel(false);
    let trial = trial(100, Some(60.0));
    let running =
        tokio::spawn(async move { run(&[address], None, &trial, Vec::new(), lines, stop).await });
    // The first line shows that the trial runs.
    assert!(received.recv().await.is_some());
    stop_sender.send(true).unwrap();
    while received.recv().await.is_some() {}
    assert_eq!(running.await.unwrap(), None);
}

#[tokio::test]
async fn an_agent_with_a_secret_serves_who_knows_it() {
    let (address, _keep) = agent_with(Some("open sesame")).await;
    let run = async |secret: Option<&str>| {
        let (lines, mut received) = mpsc::channel(16);
        let (_stop, stop) = watch::channel(false);
        let drain = tokio::spawn(async move { while received.recv().await.is_some() {} });
        let trial = trial(10, None);
        let end =
            run(std::slice::from_ref(&address), secret, &trial, Vec::new(), lines, stop).await;
        drain.await.unwrap();
        end
    };
    assert_eq!(run(Some("open sesame")).await.unwrap().outcome, Outcome::Completed);
    for wrong in [None, Some(""), Some("open sesamE"), Some("open sesame and more")] {
        let message = message(run(wrong).await);
        assert!(message.contains("--secret-file"), "{wrong:?}: {message}");
        assert!(!message.contains("sesame"), "{message}");
    }
}

#[tokio::test]
async fn silent_connections_are_few_and_end() {
    let (address, _keep) = agent().await;
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }
    // Connections beyond the limit are closed; the others are greeted.
    let mut greeted = 0;
    for stream in &mut silent {
        greeted += usize::from(stream.read_u8().await.is_ok());
    }
    assert!((1..=16).contains(&greeted), "{greeted}");
    drop(silent);
    // Until the agent has noticed that they are gone, it closes the next ones too.
    while coordinate(std::slice::from_ref(&address), &trial(10, None)).await.0.unwrap().outcome
        != Outcome::Completed
    {
        tokio::task::yield_now().await;
    }
}
