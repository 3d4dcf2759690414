//! Concurrent operations on background queries: nothing is left behind, lost, or done twice.

use std::sync::Barrier;
use std::thread;

use collector::Accounting;
use platform::RealDisk;
use platform::memory::Budget;
use query::QueueLimits;

use crate::pipeline::Pipeline;
use crate::pipeline::options::NodeOptions;
use crate::queries::jobs::*;

/// Threads that operate concurrently.
const THREADS: usize = 4;

/// A running pipeline without sources, and a directory for queries.
struct Fixture {
    pipeline: Arc<Pipeline>,
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let options = NodeOptions::new(dir.path().join("data"));
        let runs_queries = Box::new(|| false);
        let pipeline = Pipeline::start(
            &options,
            Arc::new(Accounting::default()),
            &Budget::unlimited(),
            runs_queries,
        )
        .unwrap();
        Fixture { pipeline, dir }
    }

    /// The queries of the directory, of which `slots` may run at a time.
    fn open(&self, slots: usize, jobs_max: usize) -> Arc<Jobs> {
        let queue = QueryQueue::new(QueueLimits {
            background_concurrent_max: slots,
            background_waiting_max: 64,
            ..QueueLimits::default()
        });
        let limits = JobLimits {
            jobs_max,
            disk_free_bytes_min: 0,
            keep: Duration::from_secs(3600),
            ..JobLimits::default()
        };
        let query_limits = query::Limits::default();
        let (stored, memory) = (
            crate::cluster::QueriedLines::Own(self.pipeline.stored.clone()),
            Arc::clone(&self.pipeline.memory),
        );
        Jobs::open(Arc::new(RealDisk), self.queries(), limits, query_limits, queue, stored, memory)
            .unwrap()
    }

    /// Makes lines durable.
    fn push(&self, lines: &str) {
        let origin = ::record::Origin::new(::record::Transport::Http, ::record::Format::Auto, None);
        let mut rest = lines.as_bytes();
        while !rest.is_empty() {
            let (ticket, left) = self.pipeline.http.push(&origin, rest);
            ticket.wait().unwrap();
            rest = left;
        }
    }

    fn queries(&self) -> PathBuf {
        self.dir.path().join("queries")
    }

    /// Files of the directory, in order, without the file of ids.
    fn files(&self) -> Vec<String> {
        let mut names = RealDisk.list(&self.queries()).unwrap();
        names.retain(|name| name != "last-id");
        names
    }

    /// Queries that were running when their server ended.
    fn interrupted(&self, count: usize) -> Arc<Jobs> {
        let jobs = self.open(0, 100);
        let ids: Vec<u64> = (0..count).map(|_| jobs.submit(submission()).unwrap()).collect();
        jobs.queue.close();
        for id in ids {
            let mut record = Record::read(&RealDisk, &Record::path(&self.queries(), id)).unwrap();
            record.state = QueryState::Running.name().into();
            record.write(&RealDisk, &self.queries()).unwrap();
        }
        self.open(1, 100)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.pipeline.stop();
    }
}

pub(super) fn submission() -> Submission {
    Submission {
        query: "*".into(),
        now_ns: 0,
        start_ns: i64::MIN,
        end_ns: i64::MAX,
        limit: None,
        format: "json".into(),
        include: Vec::new(),
        run_time_ms: 60_000,
        client: "a test".into(),
        seen: String::new(),
        tenant: String::new(),
        memory_bytes_max: None,
        own: OwnLimits::default(),
    }
}

/// The results of several threads that do the same work at once.
fn at_once<T: Send>(work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(THREADS);
    let (barrier, work) = (&barrier, &work);
    thread::scope(|scope| {
        let run = |thread| {
            move || {
                barrier.wait();
                work(thread)
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Blocks until the thread of a query has recorded its end.
fn wait_for_end(jobs: &Jobs, id: u64) -> QueryState {
    loop {
        match jobs.queue.get(id) {
            Some(info) if !info.state.is_ended() => thread::yield_now(),
            info => return info.map_or(QueryState::Cancelled, |info| info.state),
        }
    }
}

#[test]
fn only_one_of_many_callers_resumes_a_query() {
    let fixture = Fixture::new();
    let jobs = fixture.interrupted(8);
    let ids: Vec<u64> = jobs.jobs().keys().copied().collect();
    for id in ids {
        let resumed = at_once(|_| jobs.resume(id));
        assert!(resumed.iter().any(Result::is_ok), "{resumed:?}");
        for error in resumed.into_iter().filter_map(Result::err) {
            assert!(matches!(error, JobError::Wrong(of, _) if of == id), "{error}");
        }
        assert_eq!(wait_for_end(&jobs, id), QueryState::Done);
        assert_eq!(jobs.job(id).unwrap().record().run, 1, "it ran once");
    }
}

#[test]
fn a_query_resumed_and_deleted_at_once_is_either() {
    let fixture = Fixture::new();
    let jobs = fixture.interrupted(16);
    let ids: Vec<u64> = jobs.jobs().keys().copied().collect();
    for id in ids {
        at_once(|thread| match thread % 2 {
            0 => jobs.resume(id).is_ok(),
            _ => jobs.remove(id).is_ok(),
        });
        wait_for_end(&jobs, id);
        assert_eq!(jobs.job(id).is_some(), jobs.queue.get(id).is_some(), "{id}");
        if jobs.job(id).is_some() {
            jobs.remove(id).unwrap();
        }
        assert!(jobs.queue.get(id).is_none());
    }
    assert_eq!(fixture.files(), Vec::<String>::new());
    assert_eq!(jobs.bytes(), 0);
}

#[test]
fn a_query_cancelled_while_waiting_and_deleted_leaves_no_file() {
    let fixture = Fixture::new();
    let jobs = fixture.open(0, 100);
    for _ in 0..50 {
        let id = jobs.submit(submission()).unwrap();
        jobs.queue.cancel(id);
        wait_for_end(&jobs, id);
        // Its thread may still be about to record how it ended.
        jobs.remove(id).unwrap();
    }
    // Slow threads of the queries before have written by the time this one has ended.
    let last = jobs.submit(submission()).unwrap();
    assert_eq!(fixture.files(), [format!("{last}.json")]);
    jobs.queue.close();
}

#[test]
fn concurrent_submissions_get_different_ids() {
    let fixture = Fixture::new();
    let jobs = fixture.open(0, 100);
    let mut ids: Vec<u64> =
        at_once(|_| (0..8).map(|_| jobs.submit(submission()).unwrap()).collect::<Vec<_>>())
            .concat();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 8 * THREADS);
    assert_eq!(LastId::read(&RealDisk, &fixture.queries()).unwrap(), *ids.last().unwrap());
    assert_eq!(fixture.files().len(), ids.len());
    jobs.queue.close();
    // They wait again, in their order.
    let again = fixture.open(0, 100);
    let waiting: Vec<u64> = again.jobs().keys().copied().collect();
    assert_eq!(waiting, ids);
    assert_eq!(again.queue.get(ids[0]).unwrap().position, Some(1));
    again.queue.close();
}

#[test]
fn the_number_of_kept_queries_is_limited() {
    let fixture = Fixture::new();
    let jobs = fixture.open(0, 3);
    let kept =
        at_once(|_| (0..2).filter_map(|_| jobs.submit(submission()).ok()).collect::<Vec<_>>());
    let kept = kept.concat();
    assert_eq!((kept.len(), fixture.files().len()), (3, 3));
    let error = jobs.submit(submission()).unwrap_err();
    assert!(error.to_string().contains("query.results_keep"), "{error}");
    assert_eq!(jobs.queue.list().len(), 3, "refused queries are not listed");
    jobs.queue.cancel(kept[0]);
    wait_for_end(&jobs, kept[0]);
    jobs.remove(kept[0]).unwrap();
    jobs.submit(submission()).unwrap();
    jobs.queue.close();
}

#[test]
fn a_paused_query_that_has_not_begun_waits_again_after_a_start() {
    let fixture = Fixture::new();
    let jobs = fixture.open(0, 100);
    let (resumed, paused) =
        (jobs.submit(submission()).unwrap(), jobs.submit(submission()).unwrap());
    for id in [resumed, paused] {
        jobs.queue.pause(id);
        jobs.paused(id);
    }
    assert_eq!(jobs.resume(resumed).unwrap(), QueryState::Waiting);
    jobs.queue.close();
    let again = fixture.open(0, 100);
    assert_eq!(again.queue.get(resumed).unwrap().state, QueryState::Waiting);
    assert_eq!(again.queue.get(paused).unwrap().state, QueryState::Interrupted);
    // A query that was resumed and waits does so after a restart as well.
    assert_eq!(again.resume(paused).unwrap(), QueryState::Waiting);
    again.queue.close();
    let third = fixture.open(0, 100);
    assert_eq!(third.queue.get(paused).unwrap().state, QueryState::Waiting);
    third.queue.close();
}

#[test]
fn bytes_are_those_of_the_stored_rows() {
    let fixture = Fixture::new();
    fixture.push(&"a line of some length\n".repeat(1_000));
    let jobs = fixture.open(1, 100);
    let ids: Vec<u64> = (0..3).map(|_| jobs.submit(submission()).unwrap()).collect();
    for &id in &ids {
        assert_eq!(wait_for_end(&jobs, id), QueryState::Done);
        assert!(jobs.info(id).unwrap().rows >= 1_000);
    }
    let in_files = || -> u64 {
        let rows = |name: &String| name.ends_with(".rows");
        let bytes = |name: String| RealDisk.file_bytes(&fixture.queries().join(name)).unwrap();
        fixture.files().into_iter().filter(rows).map(bytes).sum()
    };
    assert!(jobs.bytes() == in_files() && jobs.bytes() > 0);
    jobs.remove(ids[1]).unwrap();
    assert!(jobs.bytes() == in_files() && jobs.bytes() > 0);
    jobs.queue.close();
    let again = fixture.open(1, 100);
    assert_eq!(again.bytes(), in_files());
    ids.iter().for_each(|&id| drop(again.remove(id)));
    assert_eq!((again.bytes(), fixture.files().len()), (0, 0));
}

#[test]
fn the_limits_of_a_user_hold_in_the_background() {
    let fixture = Fixture::new();
    let lines: String = (0..1_000).map(|n| format!("line {n} of some length\n")).collect();
    fixture.push(&lines);
    let jobs = fixture.open(1, 100);
    let ended = |query: &str, own: OwnLimits| {
        let id = jobs.submit(Submission { query: query.into(), own, ..submission() }).unwrap();
        let state = wait_for_end(&jobs, id);
        let error = jobs.queue.get(id).unwrap().error.unwrap_or_default();
        (state, error, jobs.info(id).unwrap().rows)
    };
    let rows = |most| OwnLimits { rows: Some(most), ..OwnLimits::default() };
    let (state, error, kept) = ended("length", rows(7));
    assert_eq!((state, kept), (QueryState::Failed, 7), "{error}");
    assert!(error.contains("more than 7 rows") && error.contains("the limit rows_max of"));
    assert_eq!(ended("length", rows(1_000)), (QueryState::Done, String::new(), 1_000));
    let memory = |most| OwnLimits { memory_bytes: Some(most), ..OwnLimits::default() };
    let counts = "length | stats by (_msg) count() n";
    let (state, error, _) = ended(counts, memory(100));
    assert_eq!(state, QueryState::Failed);
    assert!(error.contains("the limit memory_bytes_max of"), "{error}");
    assert_eq!(ended(counts, memory(u64::MAX)), (QueryState::Done, String::new(), 1_000));
}

#[test]
fn a_run_that_continues_has_what_is_left_of_the_rows_of_its_user() {
    let fixture = Fixture::new();
    fixture.push(&"a line of some length\n".repeat(10));
    let jobs = fixture.open(1, 100);
    let own = OwnLimits { rows: Some(15), ..OwnLimits::default() };
    let submission = Submission { query: "length".into(), own, ..submission() };
    let id = jobs.submit(submission).unwrap();
    assert_eq!(wait_for_end(&jobs, id), QueryState::Done);
    jobs.queue.close();
    // As if the server had ended while it ran, over lines of which 10 more belong to the answer.
    let mut record = Record::read(&RealDisk, &Record::path(&fixture.queries(), id)).unwrap();
    (record.state, record.within) = (QueryState::Running.name().into(), None);
    record.write(&RealDisk, &fixture.queries()).unwrap();
    fixture.push(&"a later line of some length\n".repeat(10));
    let again = fixture.open(1, 100);
    again.resume(id).unwrap();
    assert_eq!(wait_for_end(&again, id), QueryState::Failed);
    let error = again.queue.get(id).unwrap().error.unwrap();
    assert!(error.contains("more than 15 rows"), "{error}");
    assert_eq!(again.info(id).unwrap().rows, 15);
}

#[test]
fn kept_results_go_with_the_lines_that_a_deletion_deletes() {
    let fixture = Fixture::new();
    let store = fixture.pipeline.store();
    let jobs = fixture.open(1, 100);
    let submit = || {
        let id = jobs.submit(submission()).unwrap();
        wait_for_end(&jobs, id);
        id
    };
    let wait_for_deletion = || {
        while store.deletions().iter().any(|(deletion, _)| deletion.finished_ns.is_none()) {
            thread::yield_now();
        }
    };
    // A deletion of nothing leaves the results.
    let first = submit();
    store.delete_lines("no-such-word").unwrap();
    wait_for_deletion();
    jobs.expire();
    assert!(jobs.info(first).is_some());
    write_line(store, "customer-4711");
    let second = submit();
    store.delete_lines("4711").unwrap();
    wait_for_deletion();
    assert_eq!(store.deletions()[1].0.lines, 1);
    jobs.expire();
    assert!(jobs.info(first).is_none() && jobs.info(second).is_none());
    let third = submit();
    jobs.expire();
    assert!(jobs.info(third).is_some(), "it began afterwards");
    assert_eq!((jobs.remove_ended(), fixture.files().len()), ((1, 0), 0));
}

/// Makes a line durable.
fn write_line(store: &store::Store, text: &str) {
    let mut builder = ::record::FrameBuilder::new();
    let (transport, format) = (::record::Transport::Http, ::record::Format::Auto);
    let origin = ::record::Origin::new(transport, format, None);
    builder.push_line(&origin, now_ns(), text.as_bytes(), false);
    let (node, sequence) = store.next_sequence();
    let frame = builder.finish(node, sequence).expect("has a line");
    let (sender, durable) = std::sync::mpsc::channel();
    let done: platform::OnDurable = Box::new(move |result| sender.send(result).unwrap());
    store.append(vec![(frame, done)], platform::Patience::Unlimited).unwrap();
    durable.recv().unwrap().unwrap();
}
