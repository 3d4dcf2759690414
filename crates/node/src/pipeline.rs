//! The path of a line and of a query, wired in order: the place to start reading.
//!
//! ```text
//! line → source → frame → deliver → hot segment (durable) → parse once → { cache, times, summary, tail }
//!        └── collector ──┘ Delivery  └── store ──────────┘  └── ParseStage ───────────────────────────┘
//!                     behind a cursor of its own, hot or sealed: SummaryStage → rows → own intake → deliver → …
//!                     likewise: ProgramStage notes buckets → due → programs → rows → own intake → deliver → …
//!                                                 settled: parsed → sealed segment → merged, encoded again
//!                                                                   └── store, with Upkeep ────────────┘
//! query → http → queue of queries → snapshot of the store → frames or blocks, parsed once or now → rows → http
//!                └── query ──────┘  └── Stored ─────────────────────────────────────────┘
//! ```
//!
//! Threads: one for each source (started in [`crate::ingest::sources`]) and each intake
//! (collector), one writer and two that seal in turn (store), the parse stage ([`parse`]), the
//! summary stage ([`crate::programs::summary`]), the stage of programs ([`crate::programs::stage`])
//! and one for each program ([`crate::programs::runner`]), two for each sink
//! ([`crate::sinks::stage`]), one for each running query (`http::queries`).
//!
//! Invariants:
//! - The parse stage sees frames in the order of the store, each once; nothing waits for it: a
//!   query parses the frames that the stage has not reached, and senders are acknowledged before
//!   it.
//! - Lines are counted once across crashes: the summary reads in the order of arrival, whatever is
//!   sealed meanwhile; a flush carries the watermark up to which it counts, and after a start
//!   counting resumes behind the greatest watermark (see crate `programs`).
//! - The shutdown is in the order of a line's path: sources, then frames in flight, then the
//!   summary, then the store.
//! - Sealed lines are settled, that is parsed. Sealing does not wait for readers that read lines
//!   later, behind a cursor.
//! - A panic of a stage is logged and counted, and the stage restarts ([`Stages`]): without it
//!   nothing would be sealed until the next start. At shutdown the stage ends, and unfinished work
//!   is redone after the next start.
//!
//! Left out: retention and sealing, which the store does by itself; [`Upkeep`] provides the parser
//! for them.

mod cluster_work;
pub mod leased_work;
pub mod options;
mod parse;
mod unreadable;

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use anyhow::{Context, Result};
use collector::node::{Forward, ForwardConfig, Forwarder};
use collector::{Accounting, Deliver, FRAME_AGE_AWAITED_MS, Intake, SourceKind};
use platform::memory::Budget;
use platform::{Clock, Disk, RealClock, RealDisk};
use query::source::Answers;
use record::{Parser, ParserConfig};
use store::{Retention, Store};
use text::size::show_bytes;

use crate::cluster::backup::ClusterBackups;
use crate::cluster::engines::{
    EngineOptions, KafkaAppend, Owner, OwnerSettings, RetentionRule, RetentionSettings,
};
use crate::cluster::{Cluster, Engines, QueriedLines};
use crate::data_dir::{
    ALERT_RULES_FOLDER, ALERTS_FOLDER, DiskDocuments, DocumentFolder, Documents, LOOKUPS_FOLDER,
    RECEIVERS_FOLDER, RERUNS_FILE, SINKS_FOLDER, SPOOL_FOLDER,
};
use crate::ingest::delivery::StoreDelivery;
use crate::ingest::http_lines::HttpLines;
use crate::ingest::quotas::Quotas;
use crate::ingest::rules::{RuleSet, RuledDelivery, Rules};
use crate::ingest::sources::{SourceContext, Sources};
use crate::ingest::tenants::{self, Tenants};
use crate::lookups::Lookups;
use crate::process::disk_full::is_disk_full;
use crate::process::stages::{StageThread, Stages, lock};
use crate::programs::rows::ProgramRevisions;
use crate::programs::stage::ProgramStage;
use crate::programs::summary::reruns::KeptReruns;
use crate::programs::summary::stage::SummaryStage;
use crate::queries::tails::Tails;
use crate::sinks::rejected::RejectedDocuments;
use crate::storage::arrivals::{Arrivals, StoreArrivals};
use crate::storage::backup::schedule::{Backups, SendBackup, StoreBackups};
use crate::storage::integrity::Integrity;
use crate::storage::row_store::RowStore;
use crate::storage::stored::{Parsers, Stored};
use crate::storage::upkeep::Upkeep;
use cluster_work::ClusterWork;
use leased_work::{LeasedWork, LeasedWorkOptions, LeasedWorkParts, LeasedWorkSlot};
use options::NodeOptions;
use parse::ParseStage;

/// Time at shutdown for parsing what has arrived. The rest is parsed after the next start.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(3);
/// What a start of a new data directory writes, with room to spare: the catalog, and its journal.
const START_BYTES: u64 = 1 << 20;

/// Adds to an error by which a start ends what to do, if the disk is full.
fn explained(error: anyhow::Error, data_dir: &Path) -> anyhow::Error {
    if !is_disk_full(error.as_ref()) {
        return error;
    }
    let free = RealDisk.space(data_dir).map_or(0, |space| space.free_bytes);
    error.context(format!(
        "the disk of {} is full ({} free), and this start has to write a file; free {} on it, for example by moving \
         other files away, and start again",
        data_dir.display(),
        show_bytes(free),
        show_bytes(START_BYTES)
    ))
}

/// A running Loginson without its HTTP API.
pub struct Pipeline {
    /// The lines of the store, as queries read them.
    pub stored: Stored,
    /// Accepts lines of requests.
    pub http: Arc<HttpLines>,
    /// Makes lines of the audit log durable.
    pub audit_rows: Arc<dyn RowStore>,
    /// Delivers frames to the store.
    pub delivery: Arc<StoreDelivery>,
    /// What becomes of lines before they are durable.
    pub rules: Arc<Rules>,
    /// Whose lines there can be.
    pub tenants: Arc<Tenants>,
    /// What tenants hold of the disk.
    pub quotas: Quotas,
    /// The tables that rules and queries look values up in.
    pub lookups: Arc<Lookups>,
    /// Parses durable frames, and hands them to live tails.
    pub parsing: Arc<ParseStage>,
    /// Counts lines per type and time.
    pub summary: Arc<SummaryStage>,
    /// Programs, sinks and alerts; none where another node of the cluster has them.
    work: Arc<LeasedWorkSlot>,
    work_options: LeasedWorkOptions,
    /// Threads of the stages, and their panics.
    pub stages: Arc<Stages>,
    /// The memory budget of queries and tails.
    pub memory: Arc<Budget>,
    /// What opening the store found, as one sentence.
    pub recovery: String,
    /// Sends backups to their destination, if there is one.
    pub backups: Option<Arc<Backups>>,
    /// Makes them in a cluster, once the engines are reached.
    cluster_backups: Arc<ClusterBackups>,
    /// Keeps the chain of sealed segments, if that is asked for.
    pub integrity: Option<Arc<Integrity>>,
    /// The disk of the data directory, which encrypts if that is asked for.
    pub disk: Arc<dyn Disk>,
    /// Delivers lines to Kafka, in a cluster.
    pub forwarder: Option<Arc<Forwarder>>,
    /// The part of this node in a cluster.
    owner: OnceLock<Owner>,
    sources: Mutex<Arc<Sources>>,
    parse_thread: StageThread,
    summary_thread: StageThread,
    integrity_thread: Option<StageThread>,
}

impl Pipeline {
    /// Opens the store and starts every stage, in the reverse order of a line's path: when a stage
    /// starts, the next one is ready.
    ///
    /// `memory` is the budget of queries and tails; `is_queried` says whether queries run.
    pub fn start(
        options: &NodeOptions,
        accounting: Arc<Accounting>,
        memory: &Arc<Budget>,
        is_queried: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<Arc<Pipeline>> {
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let parser = Parser::new(&ParserConfig {
            types: options.types.clone(),
            zone: options.zone,
            no_server_fields: options.no_server_fields,
        })
        .context("[[types]] of the configuration")?;
        let parsers = Arc::new(Parsers::new(parser));
        let disk = options.encryption.disk(options.data_dir())?;
        let opened = Store::open(options.store.clone(), Arc::clone(&disk), Arc::clone(&clock));
        let (store, report) =
            opened.map_err(|error| explained(error.into(), options.data_dir()))?;
        for warning in &report.warnings {
            tracing::warn!("{warning}");
        }
        tracing::info!("{report}");
        let integrity = options.integrity.clone().map(|integrity| {
            let (store, clock) = (Arc::clone(&store), Arc::clone(&clock));
            let integrity = Integrity::new(integrity, store, options.data_dir(), clock);
            integrity.begin();
            Arc::new(integrity)
        });

        let kept: Arc<dyn Documents> = Arc::new(DocumentFolder::new(options.data_dir()));
        let reruns = KeptReruns::open(Arc::clone(&kept), RERUNS_FILE)?;
        let delivery = Arc::new(StoreDelivery::new(Arc::clone(&store)));
        let local: Arc<dyn Deliver> = Arc::clone(&delivery) as _;
        let forwarder = options.engines.as_ref().map(|engines| forward(engines, options));
        let forwarder = forwarder.transpose()?;
        let deliver = forwarder.clone().map_or(Arc::clone(&local), |forwarder| forwarder as _);
        let lookups = Lookups::open(&options.lookups).map_err(anyhow::Error::msg)?;
        let lookups = Arc::new(lookups);
        lookups.open_uploads(&options.data_dir().join(LOOKUPS_FOLDER));
        lookups.watch()?;
        let rules = RuleSet::new(&options.rules, &RuleSet::default(), Some(&lookups.for_rules()));
        let rules = Arc::new(Rules::new(rules.map_err(anyhow::Error::msg).context("[[rules]]")?));
        let tenants = Arc::clone(&options.tenants);
        let deliver = tenants::delivery(deliver, &tenants, |deliver| {
            Arc::new(RuledDelivery::new(deliver, Arc::clone(&rules), Arc::clone(&parsers)))
        });
        let own = Intake::start(
            SourceKind::Internal,
            FRAME_AGE_AWAITED_MS,
            Arc::clone(&local),
            Arc::clone(&accounting),
        );
        let audit_rows: Arc<dyn RowStore> = Arc::new(Intake::start(
            SourceKind::Internal,
            FRAME_AGE_AWAITED_MS,
            Arc::clone(&local),
            Arc::clone(&accounting),
        ));
        let stages = Arc::<Stages>::default();
        let summary = Arc::new(SummaryStage::new(
            Arc::clone(&stages),
            Arc::clone(&clock),
            Arc::clone(&store),
            Arc::clone(&parsers),
            options.summary.clone(),
            own,
            reruns,
        ));
        let answers = Arc::new(Answers::new(options.query.answers_bytes_max));
        let stored = Stored::new(Arc::clone(&store), Arc::clone(&parsers), answers);
        stored.look_up_in(Arc::clone(&lookups) as _);
        let work_options = LeasedWorkOptions::new(options, &clock, &parsers, memory);
        let work = Arc::<LeasedWorkSlot>::default();
        if options.engines.is_none() {
            let rows = Intake::start(
                SourceKind::Internal,
                FRAME_AGE_AWAITED_MS,
                local,
                Arc::clone(&accounting),
            );
            let arrivals =
                StoreArrivals { store: Arc::clone(&store), parsers: Arc::clone(&parsers) };
            let arrivals = Arc::new(arrivals);
            let parts = LeasedWorkParts {
                lines: QueriedLines::Own(stored.clone()),
                notes: Arc::clone(&arrivals) as _,
                notes_itself: false,
                arrivals: Arc::new(move || Arc::clone(&arrivals) as Arc<dyn Arrivals>),
                rows: Arc::new(rows),
                state: kept,
                programs: Arc::new(DocumentFolder::configured(
                    &options.programs.folder,
                    options.data_dir(),
                )),
                cursors: Arc::new(DocumentFolder::new(&options.data_dir().join(SINKS_FOLDER))),
                alert_rules: Arc::new(DocumentFolder::new(
                    &options.data_dir().join(ALERT_RULES_FOLDER),
                )),
                alerts: Arc::new(DocumentFolder::new(&options.data_dir().join(ALERTS_FOLDER))),
                receivers: Arc::new(DiskDocuments::new(
                    Arc::clone(&disk),
                    &options.data_dir().join(RECEIVERS_FOLDER),
                )),
            };
            let signals = Arc::new(stages.beside());
            work.set(Some(LeasedWork::start(&work_options, parts, signals)?));
        }
        let programs = work.get().map(|work| Arc::clone(&work.programs));
        if let Some(programs) = &programs {
            let programs = Arc::downgrade(programs);
            stored.count_revisions(Arc::new(ProgramRevisions::new(move || {
                let programs = programs.upgrade().ok_or("the server is shutting down")?;
                Ok(programs.runs())
            })));
        }
        let parsing = Arc::new(ParseStage::new(
            Arc::clone(&stages),
            Arc::clone(&store),
            Arc::clone(&parsers),
            Arc::clone(&summary),
            programs,
            Tails::new(memory),
            options.parse_threads,
        ));
        let (parsed, to_summarise) = mpsc::sync_channel(1);
        let at_start = store.hot_frames();
        let (parse, tell) = (Arc::clone(&parsing), parsed.clone());
        let parse_thread = StageThread::start("parse", move || parse.run(at_start, &tell))?;
        let summarise = Arc::clone(&summary);
        let summary_thread = StageThread::start("summary", move || {
            // A sender always exists, so that receiving waits.
            let _parsed = parsed;
            summarise.run(&to_summarise);
        })?;

        let upkeep = Upkeep::new(Arc::clone(&parsers), is_queried);
        store.start_background(Arc::new(upkeep))?;
        let cluster_backups = Arc::<ClusterBackups>::default();
        let backups = options.backup.clone().map(|backup| {
            let sender: Arc<dyn SendBackup> = match options.engines {
                Some(_) => Arc::clone(&cluster_backups) as _,
                None => Arc::new(StoreBackups {
                    store: Arc::clone(&store),
                    data_dir: options.data_dir().to_owned(),
                    free_bytes_min: options.store.disk_free_bytes_min,
                }),
            };
            Backups::new(backup, sender, options.data_dir(), Arc::clone(&clock))
        });
        let backups = backups.map(Arc::new);
        if let Some(backups) = backups.clone() {
            let of = Arc::clone(&stages);
            // It is not waited for at the end: see `Backups::stop`.
            StageThread::start("backups", move || of.run("backups", || backups.run()))?;
        }
        let integrity_thread = integrity.clone().map(|integrity| {
            let of = Arc::clone(&stages);
            StageThread::start("integrity", move || of.run("integrity", || integrity.run(&of)))
        });
        let integrity_thread = integrity_thread.transpose()?;
        let http = HttpLines::start(
            Arc::clone(&deliver),
            Arc::clone(&accounting),
            Arc::clone(&clock),
            Arc::clone(&parsers),
        );
        let pipeline = Arc::new(Pipeline {
            stored,
            work,
            work_options,
            http: Arc::new(http),
            audit_rows,
            delivery: Arc::clone(&delivery),
            rules,
            quotas: Quotas::new(Arc::clone(&tenants)),
            tenants,
            lookups,
            parsing,
            summary,
            stages,
            memory: Arc::clone(memory),
            recovery: report.to_string(),
            backups,
            cluster_backups,
            integrity,
            disk,
            forwarder,
            owner: OnceLock::new(),
            sources: Mutex::default(),
            parse_thread,
            summary_thread,
            integrity_thread,
        });
        let with = match options.engines.is_some() {
            true => SourceContext { deliver, accounting, clock, store: None, nodes: None },
            false => {
                let nodes = Some(delivery as _);
                SourceContext { deliver, accounting, clock, store: Some(store), nodes }
            }
        };
        // From here on `stop` ends the threads, also if a source cannot start.
        match Sources::start(&options.sources, &with) {
            Ok(sources) => *lock(&pipeline.sources) = Arc::new(sources),
            Err(error) => {
                pipeline.stop();
                return Err(error);
            }
        }
        Ok(pipeline)
    }

    /// Parsers of lines.
    pub fn parsers(&self) -> &Arc<Parsers> {
        self.work_options.parsers()
    }

    /// Ends every stage in the order of a line's path. Nothing acknowledged is lost, and everything
    /// that has arrived is kept.
    pub fn stop(&self) {
        if let Some(backups) = &self.backups {
            backups.stop();
        }
        if let Some(forwarder) = &self.forwarder {
            forwarder.begin_stop();
        }
        self.tenants.close();
        let sources = std::mem::take(&mut *lock(&self.sources));
        sources.stop();
        self.http.stop();
        self.audit_rows.close();
        if let Some(forwarder) = &self.forwarder {
            forwarder.stop();
        }
        if let Some(owner) = self.owner.get() {
            owner.stop();
        }
        self.stages.drain(DRAIN_TIME_MAX);
        self.store().wake_waiters();
        self.parse_thread.join();
        self.stages.stop();
        self.summary_thread.join();
        if let Some(work) = self.work.set(None) {
            work.close();
        }
        self.parsing.close_tails();
        self.summary.close();
        if let Some(thread) = &self.integrity_thread {
            thread.join();
        }
        if let Err(error) = self.store().close() {
            tracing::error!("closing the store: {error}");
        }
        if let Some(integrity) = &self.integrity {
            integrity.finish();
        }
    }

    /// Takes part in a cluster: owns partitions, and answers for them.
    ///
    /// Errors: a directory cannot be used, a thread cannot be started.
    pub fn join(&self, engines: &Arc<Engines>, options: &NodeOptions) -> Result<()> {
        let parsing = Arc::clone(&self.parsing);
        let retention = retention_of(&options.store.retention());
        let owner = Owner::start(
            Arc::clone(engines),
            Arc::clone(self.stored.parsers()),
            Arc::new(move |batch, place| parsing.tell_tails(batch, place)),
            OwnerSettings {
                retention,
                grace: options.grace(),
                disk_free_bytes_min: options.store.disk_free_bytes_min,
                sealing_threads: options.store.sealing_threads,
            },
            Arc::new(ClusterWork {
                options: self.work_options.clone(),
                slot: Arc::clone(&self.work),
                stages: Arc::clone(&self.stages),
                lines: QueriedLines::new(
                    self.stored.clone(),
                    Some(Cluster::on_engines(
                        Arc::clone(engines),
                        Arc::new(ProgramRevisions::of_cluster(engines)),
                    )),
                ),
                engines: Arc::clone(engines),
            }),
            options.data_dir(),
        )?;
        assert!(self.owner.set(owner).is_ok(), "a node takes part once");
        self.cluster_backups.set(engines);
        Ok(())
    }

    /// Changes what is deleted when.
    ///
    /// Errors: a start would refuse it; nothing changes, in the cluster neither.
    pub fn set_retention(&self, retention: Retention) -> Result<()> {
        let of_cluster = retention_of(&retention);
        if self.store().retention() != retention {
            self.store().set_retention(retention)?;
        }
        if let Some(owner) = self.owner.get() {
            owner.set_retention(of_cluster);
        }
        Ok(())
    }

    /// The programs, sinks, alerts and the watch that run here; none where another node of the
    /// cluster has them, and during the shutdown.
    pub fn work(&self) -> Option<Arc<LeasedWork>> {
        self.work.get()
    }

    /// The documents that the destinations of this node's sinks rejected, whether sinks run here or
    /// not.
    pub fn rejected(&self) -> &RejectedDocuments {
        self.work_options.rejected()
    }

    /// The programs that run here.
    pub fn programs(&self) -> Option<Arc<ProgramStage>> {
        self.work().map(|work| Arc::clone(&work.programs))
    }

    /// The store.
    pub fn store(&self) -> &Store {
        self.stored.store()
    }

    /// The running sources; none before the start is complete, and none once the shutdown begins.
    pub fn sources(&self) -> Arc<Sources> {
        Arc::clone(&lock(&self.sources))
    }
}

/// The same for the segments of a cluster.
fn retention_of(retention: &Retention) -> RetentionSettings {
    let age = |ns: i64| Duration::from_nanos(ns.unsigned_abs());
    let rule = |rule: &store::RetentionRule| RetentionRule {
        filter: rule.filter.clone(),
        age: age(rule.age_ns),
    };
    RetentionSettings {
        age_max: retention.age_ns.map(age),
        bytes_max: retention.bytes_max,
        rules: retention.rules.iter().map(rule).collect(),
    }
}

/// Bytes of frames of each partition that Kafka has not acknowledged.
const PARTITION_WINDOW_BYTES: usize = 4 << 20;

/// Delivers to the partitions of a log.
fn forward(engines: &EngineOptions, options: &NodeOptions) -> Result<Arc<Forwarder>> {
    let log = Arc::new(KafkaAppend::new(engines.kafka.clone()));
    let to = ForwardConfig {
        stores: log.partitions(),
        copies: Vec::new(),
        spool_dir: options.data_dir().join(SPOOL_FOLDER),
        window_bytes: PARTITION_WINDOW_BYTES,
        ..options.forward.clone()
    };
    Ok(Arc::new(Forwarder::start_log(to, Arc::new(RealDisk), log)?))
}
