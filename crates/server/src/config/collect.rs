//! `[collect]`: where `loginson collect` delivers.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail, ensure};
use collector::node::ForwardConfig;
use serde::{Deserialize, Serialize};

use platform::units::parse_bytes;

/// With a smaller window, a connection would wait for an acknowledgement after each frame.
const WINDOW_BYTES_MIN: u64 = 1 << 20;
/// Space for one file of the spool, and for a second one.
const SPOOL_BYTES_MIN: u64 = 256 << 20;

/// `[collect]` as written in the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawCollect {
    pub stores: Vec<String>,
    pub spool_dir: PathBuf,
    pub spool_bytes_max: String,
    pub spool: String,
    pub window_bytes: String,
}

impl Default for RawCollect {
    fn default() -> Self {
        RawCollect {
            stores: Vec::new(),
            spool_dir: "./loginson-spool".into(),
            spool_bytes_max: "10GiB".into(),
            spool: "overflow".into(),
            window_bytes: "32MiB".into(),
        }
    }
}

impl TryFrom<&RawCollect> for ForwardConfig {
    type Error = anyhow::Error;

    fn try_from(raw: &RawCollect) -> Result<ForwardConfig> {
        let bytes = |key: &str, text: &str| {
            parse_bytes(text).map_err(|error| anyhow!("collect.{key}: {error}"))
        };
        let spool_bytes_max = bytes("spool_bytes_max", &raw.spool_bytes_max)?;
        ensure!(
            spool_bytes_max >= SPOOL_BYTES_MIN,
            "collect.spool_bytes_max must be at least 256MiB"
        );
        let window_bytes = bytes("window_bytes", &raw.window_bytes)?;
        ensure!(window_bytes >= WINDOW_BYTES_MIN, "collect.window_bytes must be at least 1MiB");
        for store in &raw.stores {
            let port = store.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
            ensure!(
                matches!(port, Some((host, Ok(_))) if !host.is_empty()),
                "collect.stores: '{store}' is not an address; write for example store1.example:9515"
            );
        }
        Ok(ForwardConfig {
            stores: raw.stores.clone(),
            spool_dir: raw.spool_dir.clone(),
            spool_bytes_max,
            window_bytes: usize::try_from(window_bytes)?,
            spool_always: match raw.spool.as_str() {
                "overflow" => false,
                "always" => true,
                other => bail!("collect.spool: '{other}' is not known; write overflow or always"),
            },
            lost_stores: Vec::new(),
            secret: None,
        })
    }
}
