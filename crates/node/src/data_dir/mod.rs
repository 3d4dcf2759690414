//! What the data directory holds besides the files of the store: the names of its files and
//! folders, and the small documents from which a server resumes.
//!
//! Left out: what is in each of them, which the folder of code knows that writes it.

mod documents;
mod durable;
mod on_disk;

use platform::encryption::KEYS_FILE;

pub use documents::{DocumentFolder, Documents, ListedDocument, PrefixedDocuments, SharedDocument};
pub use durable::create_dirs;
pub use on_disk::DiskDocuments;

/// Files of the data directory besides segments and catalog that backups contain, where they exist.
/// Each may be older than the segments.
pub const STATE_FILES: [&str; 7] = [
    RERUNS_FILE,
    PROGRAM_RUNS_FILE,
    PROGRAMS_FILE,
    ACCESS_FILE,
    TENANTS_FILE,
    KEYS_FILE,
    WATCH_FILE,
];
/// Folders of the data directory whose files backups contain: what people made on the page or over
/// the API.
pub const STATE_FOLDERS: [&str; 10] = [
    ALERT_RULES_FOLDER,
    ALERTS_FOLDER,
    DASHBOARDS_FOLDER,
    LINKS_FOLDER,
    LOOKUPS_FOLDER,
    MACROS_FOLDER,
    PROGRAMS_FOLDER,
    RECEIVERS_FOLDER,
    TENANT_DASHBOARDS_FOLDER,
    TENANT_LINKS_FOLDER,
];
/// Name of the folder of programs.
pub const PROGRAMS_FOLDER: &str = "programs";
/// Name of the list of the runs of programs over the past.
pub const PROGRAM_RUNS_FILE: &str = "program-runs.json";
/// Name of the file that says which buckets programs have to compute.
pub const PROGRAMS_FILE: &str = "programs.json";
/// Name of the list of summary reruns.
pub const RERUNS_FILE: &str = "summary-reruns.json";
/// Name of the file with the users and tokens that were made over the API.
pub const ACCESS_FILE: &str = "access.json";
/// Name of the file with what the watch learnt. A restored server that lacks it learns again.
pub const WATCH_FILE: &str = "watch.json";
/// Name of the folder with states of alerts, and silences.
pub const ALERTS_FOLDER: &str = "alerts";
/// Name of the folder of the rule files that were saved over the API.
pub const ALERT_RULES_FOLDER: &str = "alert-rules";
/// Name of the folder of the receivers of alerts that were made over the API, with their secrets.
pub const RECEIVERS_FOLDER: &str = "receivers";
/// Name of the folder of dashboards.
pub const DASHBOARDS_FOLDER: &str = "dashboards";
/// Name of the folder of short links.
pub const LINKS_FOLDER: &str = "links";
/// Names of the folders of dashboards and short links of tenants; the names of their files begin
/// with the tenant.
pub const TENANT_DASHBOARDS_FOLDER: &str = "tenant-dashboards";
/// See [`TENANT_DASHBOARDS_FOLDER`].
pub const TENANT_LINKS_FOLDER: &str = "tenant-links";
/// Name of the file that keeps what tenants used.
pub const TENANTS_FILE: &str = "tenants.json";
/// Name of the folder of macros of queries.
pub const MACROS_FOLDER: &str = "macros";
/// Name of the folder of tables that were uploaded.
pub const LOOKUPS_FOLDER: &str = "lookups";
/// Name of the folder of sinks: cursors, and rejected documents.
pub const SINKS_FOLDER: &str = "sinks";
/// Name of the folder of background queries.
pub const QUERIES_FOLDER: &str = "queries";
/// Name of the folder of backups that are made over the API.
pub const BACKUPS_FOLDER: &str = "backups";
/// Name of the folder of frames that Kafka does not take at present.
pub const SPOOL_FOLDER: &str = "spool";
/// Name of the folder with segments of the object storage that this node read lately.
pub const OBJECTS_FOLDER: &str = "objects";

/// Whether a backup may contain a file of this name, from its directory, besides segments and
/// catalog.
pub fn is_state(file: &str) -> bool {
    let in_folder = |(folder, name): (&str, &str)| {
        let is_plain =
            !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0']);
        STATE_FOLDERS.contains(&folder) && is_plain
    };
    STATE_FILES.contains(&file) || file.split_once('/').is_some_and(in_folder)
}
