//! Counts the lines of an import whose time names no zone, so that its end can say what was
//! assumed.
//!
//! Each batch is parsed twice, in zones an hour apart: the lines whose times then differ depend on
//! an assumption. Naive, and exact for every form of time that the parser reads. It is done in the
//! importing process, and only where no zone was given. Rules of the server are not known here.

use std::sync::Arc;

use record::frame::LINE_BYTES_MAX;
use record::{Format, FrameBuilder, Hints, Origin, Parser, ParserConfig, Transport, Zone};

/// The counter.
pub struct Zoneless {
    parsers: [Parser; 2],
    origin: Origin,
    now_ns: i64,
    /// Lines counted so far.
    pub lines: u64,
}

impl Zoneless {
    /// A counter for lines that are parsed by these hints.
    pub fn new(hints: Hints, now_ns: i64) -> Zoneless {
        let parser = |offset_s| {
            let config = ParserConfig { zone: Zone::Fixed(offset_s), ..ParserConfig::default() };
            Parser::new(&config).expect("there are no rules")
        };
        let file = Origin::new(Transport::File, Format::Auto, None);
        let origin = Origin { hints: Arc::new(hints), ..file };
        Zoneless { parsers: [parser(0), parser(3600)], origin, now_ns, lines: 0 }
    }

    /// Counts the lines of a batch.
    pub fn count(&mut self, batch: &[u8]) {
        let mut builder = FrameBuilder::new();
        // Without empty lines, which the server leaves out: they would count with the time of the
        // line before them.
        for line in batch.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            let line = &line[..line.len().min(LINE_BYTES_MAX)];
            builder.push_line(&self.origin, self.now_ns, line, false);
            if builder.is_full() {
                self.count_frame(std::mem::take(&mut builder));
            }
        }
        self.count_frame(builder);
    }

    fn count_frame(&mut self, mut builder: FrameBuilder) {
        let Some(frame) = builder.finish(0, 1).map(Arc::new) else { return };
        let [one, other] = self.parsers.each_mut().map(|parser| parser.parse(Arc::clone(&frame)));
        let times = one.rows().zip(other.rows());
        self.lines += times.filter(|(a, b)| a.time_ns() != b.time_ns()).count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_zone_are_counted() {
        let mut count = Zoneless::new(Hints::default(), 1_795_262_400_000_000_000);
        for (batch, expected) in [
            ("2026-11-01 12:00:00 x\n2026-11-01T12:00:00Z x\n", 1),
            // A line without a time has that of the line before it, which depends on the zone too.
            ("Nov  1 12:00:00 h app: x\n\nno time\n", 2),
            ("2026-11-01 12:00:00 x\n\n2026-11-01 12:00:00 y\n", 2),
            (
                "2026-11-01 12:00:00 CEST x\n{\"time\":1769860800}\n{\"time\":\"2026-11-01 12:00:00\"}",
                1,
            ),
            ("", 0),
        ] {
            let before = count.lines;
            count.count(batch.as_bytes());
            assert_eq!(count.lines - before, expected, "{batch}");
        }
        let many = "2026-11-01 12:00:00 x\n".repeat(200_000);
        let before = count.lines;
        count.count(many.as_bytes());
        assert_eq!(count.lines - before, 200_000);
    }
}
