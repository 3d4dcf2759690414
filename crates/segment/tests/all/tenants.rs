//! Sealed segments of several tenants: no block has texts of two.

use std::path::Path;
use std::sync::Arc;

use platform::RealDisk;
use record::{Batch, Format, FrameBuilder, Hints, Origin, Parser, ParserConfig, Tenant, Transport};
use segment::sealed::{Clustering, Effort, SealOptions, SealedFile, SealedWriter};

use crate::sealed::{ARRIVAL_NS, HEADER, blocks_of, options, path, rows_of, seal};

/// Lines of three tenants, in turn, from one sender that writes alike for all: each has a word that
/// no other tenant has, in the message, in names of fields and in their values.
fn of_tenants(parser: &mut Parser, frames: usize, lines: usize) -> Vec<Arc<Batch>> {
    let frame = |sequence: usize| {
        let mut builder = FrameBuilder::new();
        for index in 0..lines {
            let number = (index + sequence) as u32 % 3;
            let secret = SECRETS[number as usize];
            let tenant = Tenant { account: number * 7, project: number };
            let hints = Hints {
                tenant,
                extra_fields: vec![(format!("rack_{secret}"), secret.to_owned())],
                ..Hints::default()
            };
            let transport = if index % 11 == 0 { Transport::Internal } else { Transport::Http };
            let origin =
                Origin { hints: hints.into(), ..Origin::new(transport, Format::Auto, None) };
            let late_ns = if index % 5 == 0 { 7_200_000_000_000 } else { 0 };
            let line = match index % 4 {
                0 => format!(
                    r#"{{"app_name":"a","msg":"of {secret} {index}","k_{secret}":"{secret}"}}"#
                ),
                1 => format!("<13>Nov 21 12:00:00 h a[7]: user {secret}{index} of {secret}"),
                2 => format!("level=info app_name=a owner={secret} msg={index}"),
                _ => format!("{secret} waits for {secret} {index}"),
            };
            builder.push_line(&origin, ARRIVAL_NS + late_ns, line.as_bytes(), false);
        }
        Arc::new(parser.parse(Arc::new(builder.finish(3, 100 + sequence as u64).unwrap())))
    };
    (0..frames).map(frame).collect()
}

const SECRETS: [&str; 3] = ["quincewort", "brackenfel", "hazelmoor"];

/// Checks that the bytes of each block, decompressed, hold texts of one tenant only, and that its
/// entry names the tenant; returns how many blocks each tenant has.
fn check_tenants(path: &Path) -> [usize; 3] {
    let file = SealedFile::open(&RealDisk, path).unwrap();
    let mut blocks = [0; 3];
    for (place, entry) in file.footer().blocks.iter().enumerate() {
        let own = (0..3).find(|number| entry.tenant.project == *number).unwrap() as usize;
        assert_eq!(entry.tenant.account, own as u32 * 7);
        blocks[own] += 1;
        for row in file.read_block(place).unwrap().rows() {
            let value = entry.tenant.field_value();
            assert_eq!(row.get_by_name("_tenant").unwrap_or_default(), value.as_bytes());
        }
        let chunks: Vec<Vec<u8>> =
            (0..file.chunks(place)).map(|number| file.chunk(place, number).unwrap()).collect();
        for (number, secret) in SECRETS.iter().enumerate() {
            let holds = |chunk: &Vec<u8>| memchr::memmem::find(chunk, secret.as_bytes()).is_some();
            assert_eq!(chunks.iter().any(holds), number == own, "{secret} in block {place}");
        }
    }
    blocks
}

#[test]
fn no_block_has_texts_of_two_tenants() {
    for clustering in [Clustering::Arrival, Clustering::Application, Clustering::Stream] {
        for effort in [Effort::Fast, Effort::Best] {
            for (block_bytes, chunk_bytes) in [(2_000, 20_000), (1 << 20, 1 << 25)] {
                let dir = tempfile::tempdir().unwrap();
                let options =
                    SealOptions { effort, ..options(clustering, block_bytes, chunk_bytes) };
                let mut parser = Parser::new(&ParserConfig::default()).unwrap();
                let batches = of_tenants(&mut parser, 3, 300);
                let first = path(&dir, "7.sealed");
                let footer = seal(&first, &batches, options);
                assert_eq!(**SealedFile::open(&RealDisk, &first).unwrap().footer(), footer);
                assert!(check_tenants(&first).iter().all(|blocks| *blocks > 0));
                // A rewrite starts from blocks instead of frames.
                let again = path(&dir, "8.sealed");
                let blocks: Vec<_> = blocks_of(&first).into_iter().map(Arc::new).collect();
                seal(&again, &blocks, options);
                check_tenants(&again);
                let expected = rows_of(batches.iter().map(|batch| &**batch));
                assert!(rows_of(&blocks_of(&again)) == expected);
                // Blocks that are copied keep their tenants.
                let copied = path(&dir, "9.sealed");
                let mut writer =
                    SealedWriter::create(&RealDisk, &copied, &HEADER, &[7], options).unwrap();
                let file = SealedFile::open(&RealDisk, &first).unwrap();
                for (place, entry) in footer.blocks.iter().enumerate() {
                    writer.copy_block(entry, &file.stored_block(place).unwrap()).unwrap();
                }
                writer.finish().unwrap();
                assert_eq!(check_tenants(&copied), check_tenants(&first));
            }
        }
    }
}
