//! The settings of `serve` and `collect`: flags override the environment, which overrides the
//! configuration file, which overrides the defaults. They can be read again while the process runs.

use std::path::PathBuf;

use anyhow::Result;

use query::derived::{derived, set_derived};
use query::macros::{configured, set_configured};

use crate::config::{self, Config, ConfigFile, RawConfig};

/// Where the settings of a process come from.
pub struct Settings {
    file: Option<PathBuf>,
    /// Writes what flags and the environment say into a configuration.
    apply: Box<dyn Fn(&mut RawConfig) + Send + Sync>,
}

/// Settings that were read.
#[derive(Clone)]
pub struct Loaded {
    /// As they are written.
    pub raw: RawConfig,
    /// Checked.
    pub config: Config,
}

/// From now on, queries know the macros and the derived fields of a configuration.
pub fn hold(raw: &RawConfig) {
    set_configured(config::macros(raw).unwrap_or_default());
    set_derived(config::derived_fields(raw).unwrap_or_default());
}

impl Settings {
    /// Those of a configuration file, if there is one, changed by `apply`.
    pub fn new(
        file: Option<PathBuf>,
        apply: impl Fn(&mut RawConfig) + Send + Sync + 'static,
    ) -> Settings {
        Settings { file, apply: Box::new(apply) }
    }

    /// Reads and checks them; queries know the macros and fields among them from now on. The error
    /// names the key, and file and line if the value is written there.
    pub fn load(&self) -> Result<Loaded> {
        let file = self.file.as_deref().map(ConfigFile::read).transpose()?;
        let mut raw = file.as_ref().map_or_else(RawConfig::default, |file| file.raw().clone());
        (self.apply)(&mut raw);
        // Rules and sinks may call macros of the same configuration, so these hold first. If it is
        // refused, those before hold again.
        let before = configured().iter().map(|known| (**known).clone()).collect();
        let fields_before = derived().to_vec();
        hold(&raw);
        match Config::try_from(raw.clone()) {
            Ok(config) => Ok(Loaded { raw, config }),
            Err(error) => {
                let located = match &file {
                    Some(file) => file.locate(error),
                    None => error,
                };
                set_configured(before);
                set_derived(fields_before);
                Err(located)
            }
        }
    }

    /// The text of the configuration file; empty if there is none.
    pub fn text(&self) -> String {
        let file = self.file.as_deref().and_then(|file| ConfigFile::read(file).ok());
        file.map_or_else(String::new, |file| file.text().to_owned())
    }
}
