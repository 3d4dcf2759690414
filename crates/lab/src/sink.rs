//! A sink in the place of a store: it answers the store's own client at once, from memory. Load on
//! it shows what the generator can send at most with that client: the limit of the generator.
//!
//! A sink first stands between the client and the real store and keeps the last answer to each kind
//! of request (a tape). Then it answers by itself, with these bytes, and reaches no store. So the
//! client encodes, sends, receives and parses as in a trial. How requests and answers are told
//! apart is the job of [`Wire`], one for each protocol.
//!
//! The answers fit the kind of a request and not its values, so the load takes the right answers of
//! the workload in their place. A request of a kind that was not recorded breaks its connection:
//! then the limit is unknown. The sink is a part of the generator's process and shares its
//! processors, as a store on this machine would.

mod wire;

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

pub use wire::Wire;
use wire::{Key, Request, Talk};

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Limit of one request and of one answer; a larger one breaks the connection.
const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Kinds of requests of one tape at most; further ones are answered like similar ones.
const KINDS_MAX: usize = 4_096;

/// Bytes of an answer that is kept for its own kind; a larger one is kept for similar requests.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// Answers by kind of request.
type Answers = HashMap<Key, Bytes>;

/// What a sink does with connections that it accepts.
#[derive(Clone)]
enum Mode {
    /// Passes everything on to the node in whose place the connection was made.
    Record,
    Replay(Arc<Answers>),
}

/// What all connections of a sink share: an answer of one node is as good as that of another.
struct Shared {
    wire: Wire,
    /// The address of each node, and that of the sink in its place.
    places: Vec<(String, SocketAddr)>,
    mode: Mutex<Mode>,
    tape: Mutex<Answers>,
}

/// A sink for all nodes of a store. It ends when it is dropped.
pub struct Sink {
    shared: Arc<Shared>,
    _accepting: JoinSet<()>,
}

impl Sink {
    /// Stands before the nodes at `upstreams` (`host:port`) and records. A protocol without answers
    /// swallows everything from the beginning, and the store gets nothing. Fails if no port can be
    /// had, and before brokers of Kafka on another machine, to whose own addresses clients go.
    pub async fn before(upstreams: &[String], wire: Wire) -> std::io::Result<Sink> {
        let (mut listeners, mut places) = (Vec::new(), Vec::<(String, SocketAddr)>::new());
        for upstream in upstreams {
            let host = upstream.rsplit_once(':').map_or(&**upstream, |(host, _)| host);
            let at = host.parse().ok().filter(IpAddr::is_loopback);
            if at.is_none() && wire == Wire::Kafka {
                return Err(std::io::Error::other("its brokers are not on this machine"));
            }
            let at = at.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
            // Clients of Cassandra learn the hosts of nodes, and take the port of the first.
            let first = places.first().map(|(_, first)| *first);
            let port = first.filter(|first| first.ip() != at).map_or(0, |first| first.port());
            let listener = TcpListener::bind((at, port)).await?;
            places.push((upstream.clone(), listener.local_addr()?));
            listeners.push(listener);
        }
        let mode = Mutex::new(match wire {
            Wire::Lines => Mode::Replay(Arc::default()),
            _ => Mode::Record,
        });
        let shared = Arc::new(Shared { wire, places, mode, tape: Mutex::default() });
        let mut accepting = JoinSet::new();
        for (place, listener) in listeners.into_iter().enumerate() {
            accepting.spawn(accept(listener, place, Arc::clone(&shared)));
        }
        Ok(Sink { shared, _accepting: accepting })
    }

    /// Its addresses, as endpoints of the store, in the order of the nodes.
    pub fn endpoints(&self) -> Vec<String> {
        self.shared.places.iter().map(|(_, own)| own.to_string()).collect()
    }

    /// From now on answers new connections by itself, with what was recorded.
    pub fn replay(&self) {
        if self.shared.wire != Wire::Lines {
            let answers = std::mem::take(&mut *locked(&self.shared.tape));
            *locked(&self.shared.mode) = Mode::Replay(Arc::new(answers));
        }
    }
}

fn locked<T>(what: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: TcpListener, place: usize, shared: Arc<Shared>) {
    // Dropped with the sink, and the connections with it.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let _ = client.set_nodelay(true);
        let (shared, mode) = (Arc::clone(&shared), locked(&shared.mode).clone());
        connections.spawn(async move {
            match mode {
                Mode::Record => drop(record(client, place, &shared).await),
                Mode::Replay(answers) => drop(replay(client, shared.wire, answers).await),
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Requests that wait for their answers: in order, or by the number that the protocol gives them.
#[derive(Default)]
struct Waiting {
    in_order: VecDeque<Key>,
    numbered: HashMap<u32, Key>,
}

async fn record(mut client: TcpStream, place: usize, shared: &Shared) -> std::io::Result<()> {
    let mut store = TcpStream::connect(&shared.places[place].0).await?;
    store.set_nodelay(true)?;
    let (mut asked, mut answered) = (BytesMut::new(), BytesMut::new());
    let wire = shared.wire;
    let (mut talk, mut waiting) = (Talk::new(wire), Waiting::default());
    loop {
        tokio::select! {
            read = read(&mut client, &mut asked) => {
                let mut passed = 0;
                if read? == 0 {
                    return Ok(());
                }
                while let Some(Request { bytes, key, number }) = talk.request(&asked[passed..])? {
                    if let Some(key) = key {
                        match number {
                            Some(number) => drop(waiting.numbered.insert(number, key)),
                            None => waiting.in_order.push_back(key),
                        }
                    }
                    passed += bytes;
                }
                store.write_all(&asked[..passed]).await?;
                asked.advance(passed);
            }
            read = read(&mut store, &mut answered) => {
                if read? == 0 {
                    return Ok(());
                }
                let mut passed = 0;
                while let Some((bytes, number)) = wire.answer(&answered[passed..])? {
                    let key = match number {
                        Some(number) => waiting.numbered.remove(&number),
                        None => waiting.in_order.pop_front(),
                    };
                    if let Some(key) = key {
                        let answer = &mut answered[passed..passed + bytes];
                        wire.lead_here(&key, answer, &shared.places)?;
                        keep(&shared.tape, key, answer);
                    }
                    passed += bytes;
                }
                client.write_all(&answered[..passed]).await?;
                answered.advance(passed);
            }
        }
    }
}

/// The last answer of a kind stays, and the last one to a similar request.
fn keep(tape: &Mutex<Answers>, key: Key, answer: &[u8]) {
    let answer = Bytes::copy_from_slice(answer);
    let mut tape = locked(tape);
    let similar = key.similar();
    let is_small = similar.is_none() || answer.len() <= ANSWER_BYTES_MAX;
    for key in is_small.then_some(key).into_iter().chain(similar) {
        if tape.len() < KINDS_MAX || tape.contains_key(&key) {
            tape.insert(key, answer.clone());
        }
    }
}

async fn replay(mut client: TcpStream, wire: Wire, answers: Arc<Answers>) -> std::io::Result<()> {
    let (mut asked, mut out, mut talk) = (BytesMut::new(), BytesMut::new(), Talk::new(wire));
    while read(&mut client, &mut asked).await? > 0 {
        let mut passed = 0;
        while let Some(Request { bytes, key, number }) = talk.request(&asked[passed..])? {
            passed += bytes;
            let Some(key) = key else { continue };
            let similar = || answers.get(&key.similar()?);
            let Some(answer) = answers.get(&key).or_else(similar) else {
                return Err(std::io::Error::other("a kind of request that was not recorded"));
            };
            let begin = out.len();
            out.extend_from_slice(answer);
            if let Some(number) = number {
                wire.set_number(&mut out[begin..], number);
            }
        }
        asked.advance(passed);
        client.write_all(&out).await?;
        out.clear();
    }
    Ok(())
}

/// Reads what there is; 0 at the end of the stream.
async fn read(from: &mut TcpStream, into: &mut BytesMut) -> std::io::Result<usize> {
    if into.len() > MESSAGE_BYTES_MAX {
        return Err(std::io::Error::other("a message that is too large"));
    }
    into.reserve(READ_BYTES);
    from.read_buf(into).await
}
