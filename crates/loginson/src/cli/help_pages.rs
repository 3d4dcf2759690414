//! `loginson help-pages`: pages of `man` and completions of shells, made of the definition of the
//! commands. Packages are built with it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::cli::Cli;

#[derive(Args)]
pub struct HelpPagesArgs {
    /// Directory to write to; it is created
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Runs the command: `man1/*.1`, and a file for each shell.
pub fn run(args: &HelpPagesArgs) -> Result<()> {
    let man = args.dir.join("man1");
    fs::create_dir_all(&man).with_context(|| format!("cannot create {}", man.display()))?;
    let mut command = Cli::command().term_width(100);
    command.build();
    pages(&command, &man)?;
    for (shell, name) in
        [(Shell::Bash, "loginson.bash"), (Shell::Zsh, "_loginson"), (Shell::Fish, "loginson.fish")]
    {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, "loginson", &mut text);
        write(&args.dir.join(name), &text)?;
    }
    Ok(())
}

/// A page for the command and for each below it: `loginson-cluster-status.1`.
fn pages(command: &Command, dir: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    // Without the date of the build, so that two builds are equal.
    let man = Man::new(command.clone()).date("").manual("Loginson");
    man.source(concat!("loginson ", env!("CARGO_PKG_VERSION"))).render(&mut text)?;
    write(&dir.join(format!("{name}.1")), &text)?;
    let below = command.get_subcommands();
    below
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .try_for_each(|command| pages(command, dir))
}

fn write(file: &Path, text: &[u8]) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_a_completion() {
        let dir = tempfile::tempdir().unwrap();
        run(&HelpPagesArgs { dir: dir.path().to_owned() }).unwrap();
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        let shells = ["loginson.bash", "_loginson", "loginson.fish"].map(text);
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let page = text(&format!("man1/loginson-{name}.1"));
            assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
            assert!(shells.iter().all(|shell| shell.contains(name)), "{name}");
        }
        assert!(text("man1/loginson.1").contains("LOGINSON_DATA_DIR"));
        assert!(text("man1/loginson-cluster-status.1").contains("loginson cluster status"));
        assert!(!dir.path().join("man1/loginson-help-pages.1").exists());
    }
}
