//! Measures templates and token filters on files of log lines, compared with zstd and brute force.
//!
//! ```text
//! loginson-bench text_codec [--block=2097152] [--level=19]
//!     [--limit=BYTES] [--outline] FILE…
//! ```
//!
//! Lines are the values, without their newline. Sizes include all overhead of the compressed
//! frames; speeds are in MB of raw lines per second, the best of several runs per block. Each
//! answer is compared with that of brute force before its time counts.

use std::path::Path;
use std::time::Instant;

use memchr::memmem::Finder;
use segment::template::{self, SECTIONS, TemplateColumn, Texts, Values};
use segment::tokens::{TokenFilter, TokenSet, for_each_token, required_tokens};

/// Searched in every file, in addition to a token of its middle line and an absent one.
const NEEDLES: [&str; 3] = ["error", "Failed password", "INFO"];
const ABSENT: &str = "absent_token_4711";
/// How often everything except zstd's compression is run; the shortest time counts.
const RUNS: usize = 3;

struct Options {
    block_bytes: usize,
    level: i32,
    limit_bytes: usize,
    outline: bool,
    search: bool,
    quick: bool,
}

pub(crate) fn main() {
    let mut options = Options {
        block_bytes: 2 << 20,
        level: 19,
        limit_bytes: usize::MAX,
        outline: false,
        search: false,
        quick: false,
    };
    let mut files = Vec::new();
    for argument in crate::arguments() {
        match argument.split_once('=') {
            Some(("--block", value)) => options.block_bytes = value.parse().expect("a number"),
            Some(("--level", value)) => options.level = value.parse().expect("a number"),
            Some(("--limit", value)) => options.limit_bytes = value.parse().expect("a number"),
            _ if argument == "--outline" => options.outline = true,
            _ if argument == "--quick" => options.quick = true,
            _ if argument == "--search" => options.search = true,
            _ => files.push(argument),
        }
    }
    if files.is_empty() {
        eprintln!("name files of log lines");
        std::process::exit(2);
    }
    let files: Vec<File> = files.iter().map(|path| File::read(path, &options)).collect();
    sizes(&files, &options);
    if options.search {
        searches(&files, &options);
    }
}

/// A file, cut into blocks of whole lines.
struct File {
    name: String,
    raw_bytes: usize,
    blocks: Vec<Texts>,
}

impl File {
    fn read(path: &str, options: &Options) -> File {
        let mut raw = std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        raw.truncate(options.limit_bytes);
        let mut blocks = Vec::new();
        let mut from = 0;
        while from < raw.len() {
            let mut end = (from + options.block_bytes).min(raw.len());
            if end < raw.len()
                && let Some(newline) = memchr::memrchr(b'\n', &raw[from..end])
            {
                end = from + newline + 1;
            }
            let mut block = Texts::default();
            for line in raw[from..end].split_inclusive(|&byte| byte == b'\n') {
                block.bytes.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
                block.ends.push(block.bytes.len() as u32);
            }
            blocks.push(block);
            from = end;
        }
        let name = Path::new(path).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        File { name, raw_bytes: raw.len(), blocks }
    }

    fn mb_per_s(&self, seconds: f64) -> f64 {
        self.raw_bytes as f64 / 1e6 / seconds
    }
}

/// Adds the shortest of several run times of `work` to `sum_s`, since others use the machine too.
fn timed<T>(sum_s: &mut f64, mut work: impl FnMut() -> T) -> T {
    let mut shortest_s = f64::INFINITY;
    let mut run = || {
        let start = Instant::now();
        let result = work();
        shortest_s = shortest_s.min(start.elapsed().as_secs_f64());
        result
    };
    (1..RUNS).for_each(|_| drop(run()));
    let result = run();
    *sum_s += shortest_s;
    result
}

fn compress(bytes: &[u8], level: i32) -> Vec<u8> {
    zstd::bulk::compress(bytes, level).expect("zstd compresses")
}

fn lines_of(block: &Texts) -> Vec<u8> {
    let mut text = Vec::with_capacity(block.bytes.len() + block.len());
    for line in block.values().iter() {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text
}

fn sizes(files: &[File], options: &Options) {
    println!(
        "{:<14} {:>10} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>6} {:>7} {:>7} {:>7}",
        "file",
        "raw",
        "zstd -3",
        "zstd -19",
        "templates",
        "tables",
        "numbers",
        "texts",
        "ratio",
        "encode",
        "zstd",
        "decode"
    );
    let (mut logs_3, mut logs_19) = (0.0, 0.0);
    for file in files {
        let mut sections = [0; SECTIONS];
        let (mut zstd_3, mut zstd_19) = (0, 0);
        let (mut encode_s, mut zstd_s, mut decode_s) = (0.0, 0.0, 0.0);
        for block in &file.blocks {
            let values = Values::new(&block.bytes, &block.ends);
            let encoded = timed(&mut encode_s, || template::encode(values));
            let start = Instant::now();
            let frames =
                encoded.sections.each_ref().map(|section| compress(section, options.level));
            zstd_s += start.elapsed().as_secs_f64();
            let decoded = timed(&mut decode_s, || decode(&frames, &encoded.sections, block));
            assert!(decoded == *block, "{} comes back", file.name);
            for (size, frame) in sections.iter_mut().zip(&frames) {
                *size += frame.len();
            }
            let lines = lines_of(block);
            zstd_3 += compress(&lines, 3).len();
            zstd_19 += if options.quick { 0 } else { compress(&lines, 19).len() };
            if options.outline {
                let [a, b, c] = encoded.sections.each_ref().map(Vec::as_slice);
                let column = TemplateColumn::open([a, b, c], block.len(), block.bytes.len());
                let size = |bytes: &[u8]| compress(bytes, options.level).len();
                column.expect("it decoded").outline(&size).iter().for_each(|l| println!("  {l}"));
            }
        }
        let size: usize = sections.iter().sum();
        let (ratio_3, ratio_19) = (zstd_3 as f64 / size as f64, zstd_19 as f64 / size as f64);
        logs_3 += ratio_3.ln();
        logs_19 += ratio_19.ln();
        println!(
            "{:<14} {:>10} {zstd_3:>9} {zstd_19:>9} {size:>9} {:>8} {:>8} {:>8} {ratio_3:>6.2} {:>7.0} {:>7.0} {:>7.0}",
            file.name,
            file.raw_bytes,
            sections[0],
            sections[1],
            sections[2],
            file.mb_per_s(encode_s),
            file.mb_per_s(zstd_s),
            file.mb_per_s(decode_s)
        );
    }
    let count = files.len() as f64;
    println!(
        "geometric means: {:.3} × zstd -3, {:.3} × zstd -19",
        f64::exp(logs_3 / count),
        f64::exp(logs_19 / count)
    );
}

fn decode(frames: &[Vec<u8>; SECTIONS], sections: &[Vec<u8>; SECTIONS], block: &Texts) -> Texts {
    let [a, b, c] = [0, 1, 2].map(|at| decompress(&frames[at], sections[at].len()));
    template::decode([&a, &b, &c], block.len(), block.bytes.len()).expect("what was encoded")
}

fn decompress(frame: &[u8], size: usize) -> Vec<u8> {
    zstd::bulk::decompress(frame, size).expect("what was compressed")
}

/// Searches needles: by templates, and by brute force over the decompressed lines; reports what
/// filters let through.
fn searches(files: &[File], options: &Options) {
    println!();
    println!(
        "{:<14} {:<24} {:>9} {:>10} {:>10} {:>7} {:>7}",
        "file", "needle", "lines", "templates", "brute", "blocks", "passed"
    );
    let mut notes = Vec::new();
    for file in files {
        let (mut build_s, mut filter_bytes, mut tokens, mut stored_bytes) = (0.0, 0, 0, 0);
        let blocks: Vec<_> = file
            .blocks
            .iter()
            .map(|block| {
                let sections = template::encode(block.values()).sections;
                let frames = sections.each_ref().map(|section| compress(section, options.level));
                let lines = compress(&lines_of(block), 1);
                let (filter, count) = timed(&mut build_s, || {
                    let mut set = TokenSet::default();
                    block.values().iter().for_each(|line| set.add(line));
                    (set.build(), set.len())
                });
                tokens += count;
                filter_bytes += filter.len();
                stored_bytes += frames.iter().map(Vec::len).sum::<usize>();
                (block, sections, frames, lines, filter)
            })
            .collect();
        notes.push(format!(
            "{:<14} {:>9} tokens a block, {:>5.2} bits each, {:>5.1} % of the templates' size, built at {:>4.0} MB/s",
            file.name,
            tokens / blocks.len(),
            filter_bytes as f64 * 8.0 / tokens as f64,
            filter_bytes as f64 * 100.0 / stored_bytes as f64,
            file.mb_per_s(build_s)
        ));
        let rare = rare_token(file);
        for needle in NEEDLES.into_iter().chain([rare.as_str(), ABSENT]) {
            let finder = Finder::new(needle);
            let required = required_tokens(needle.as_bytes(), true, true);
            let (mut found, mut passed) = (0, 0);
            let (mut template_s, mut brute_s) = (0.0, 0.0);
            for (block, sections, frames, lines, filter) in &blocks {
                let by_template = timed(&mut template_s, || {
                    let [a, b, c] = [0, 1, 2].map(|at| decompress(&frames[at], sections[at].len()));
                    let column = TemplateColumn::open([&a, &b, &c], block.len(), block.bytes.len());
                    let count = |c: TemplateColumn| c.count_containing(needle.as_bytes(), None);
                    column.and_then(count).expect("what was encoded")
                });
                let by_force = timed(&mut brute_s, || {
                    let text = decompress(lines, block.bytes.len() + block.len());
                    count_lines(&text, &finder)
                });
                assert_eq!(by_template, by_force, "{needle} in {}", file.name);
                found += by_force;
                let filter = TokenFilter::open(filter).expect("what was built");
                passed += usize::from(filter.may_contain_all(&required));
            }
            println!(
                "{:<14} {:<24} {found:>9} {:>10.0} {:>10.0} {:>7} {passed:>7}",
                file.name,
                needle,
                file.mb_per_s(template_s),
                file.mb_per_s(brute_s),
                blocks.len()
            );
        }
    }
    println!();
    notes.iter().for_each(|note| println!("{note}"));
}

/// Number of lines with the needle: after an occurrence, the search continues with the next line.
fn count_lines(text: &[u8], finder: &Finder<'_>) -> usize {
    let (mut from, mut count) = (0, 0);
    while let Some(found) = finder.find(&text[from..]) {
        count += 1;
        from += found;
        from += memchr::memchr(b'\n', &text[from..]).map_or(text.len() - from, |at| at + 1);
    }
    count
}

/// The longest token with a digit of the line in the middle of the file.
fn rare_token(file: &File) -> String {
    let block = &file.blocks[file.blocks.len() / 2];
    let mut longest: &[u8] = b"";
    for_each_token(block.get(block.len() / 2), |token| {
        if token.len() > longest.len() && token.iter().any(u8::is_ascii_digit) {
            longest = token;
        }
    });
    String::from_utf8_lossy(longest).into_owned()
}
