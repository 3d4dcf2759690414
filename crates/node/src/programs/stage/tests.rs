//! Programs that change while lines are noted.

use std::collections::BTreeMap;

use platform::{ManualClock, RealDisk};
use programs::Language;
use query::source::Answers;
use record::{Origin, Parser, ParserConfig};
use store::{Store, StoreConfig};

use super::*;
use crate::data_dir::DocumentFolder;
use crate::storage::stored::Stored;

const SECOND_NS: i64 = 1_000_000_000;
/// The start of a bucket of ten seconds, which does not end in a test.
const START_S: i64 = 1_790_000_000;

/// Lines of one second, and what happens while they are read for the first time.
#[derive(Default)]
struct Interrupted {
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Notes for Interrupted {
    fn now(&self) -> Result<String, String> {
        Ok("before".to_owned())
    }

    fn after(&self, cursor: &str) -> Result<Option<Noted>, String> {
        if cursor == "behind" {
            return Ok(None);
        }
        let meanwhile = lock(&self.meanwhile).take();
        if let Some(happens) = meanwhile {
            happens();
        }
        Ok(Some(Noted {
            seconds: BTreeMap::new(),
            seconds_of_any: [START_S].into(),
            received_ns: None,
            next: "behind".to_owned(),
            skipped: 0,
        }))
    }

    fn frames_left(&self, _: &str) -> u64 {
        0
    }
}

struct NoRows;

impl RowStore for NoRows {
    fn store(&self, _: &Origin, _: &[u8], _: i64) -> Result<(), String> {
        Ok(())
    }

    fn close(&self) {}
}

#[test]
fn a_program_that_changes_while_lines_are_noted_misses_none() {
    let directory = tempfile::tempdir().unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(START_S * SECOND_NS));
    let config = StoreConfig { disk_free_bytes_min: 0, ..StoreConfig::new(directory.path()) };
    let store = Store::open(config, Arc::new(RealDisk), Arc::clone(&clock)).unwrap().0;
    let parser = Parser::new(&ParserConfig::default()).unwrap();
    let parsers = Arc::new(Parsers::new(parser));
    let stored = Stored::new(store, Arc::clone(&parsers), Arc::new(Answers::new(1 << 20)));
    let notes = Arc::new(Interrupted::default());
    let folder = directory.path().join("programs");
    let stage = ProgramStage::open(Parts {
        stages: &Arc::new(Stages::default()),
        clock: &clock,
        parsers: &parsers,
        lines: QueriedLines::new(stored, None),
        notes: Arc::clone(&notes) as Arc<dyn Notes>,
        rows: Arc::new(NoRows),
        memory: &Budget::unlimited(),
        query_limits: query::Limits::default(),
        keep: Arc::new(DocumentFolder::new(&directory.path().join("keep"))),
        folder: Arc::new(DocumentFolder::new(&folder)),
        delay_s: 2,
        options: &ProgramOptions::in_folder(folder.clone()),
    });
    let stage = Arc::new(stage.unwrap());
    let save = |stage: &ProgramStage, text: &str| {
        stage.change(|registry| registry.save("p", Language::LogsQl, text)).unwrap();
    };
    save(&stage, "* | stats count() lines");
    let first = stage.registry().runners();
    let changed = Arc::clone(&stage);
    *lock(&notes.meanwhile) =
        Some(Box::new(move || save(&changed, "* | stats by (hostname) count() lines")));
    stage.note_arrivals();
    let runners = stage.registry().runners();
    assert!(!is_same(&first, &runners), "the program has changed");
    let bucket = (START_S * SECOND_NS, (START_S + 10) * SECOND_NS);
    assert_eq!(runners[0].pending_ns(), [bucket]);
    assert_eq!(lock(&stage.noted).cursor.as_deref(), Some("behind"));
    stage.close();
}
