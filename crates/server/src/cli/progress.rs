//! Shows on the terminal how far long work is and how long it will take; nothing when there is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for so many bytes.
pub fn bytes_bar(what: &'static str, bytes: u64) -> ProgressBar {
    let style = "{prefix} {bar:30} {percent:>3}%  {bytes} of {total_bytes}  {eta} left";
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
    bar.set_prefix(what);
    // So that time goes on also while one large file is read.
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
