//! Patterns of real logs against those that people found in them.

use std::collections::HashMap;

use analysis::patterns::{Counts, PatternId, Scratch};

/// Messages of a log with the names of their true patterns.
fn labelled(log: &str) -> Vec<(String, String)> {
    let path = format!("../../testdata/patterns/{log}.tsv");
    let text = std::fs::read_to_string(path).unwrap();
    let pair =
        |line: &str| line.split_once('\t').map(|(l, m)| (l.to_owned(), m.to_owned())).unwrap();
    text.lines().map(pair).collect()
}

/// Ids of the patterns of messages, when these messages are all there are.
fn ids(messages: &[(String, String)]) -> Vec<PatternId> {
    let (mut counts, mut scratch) = (Counts::new(Counts::SKELETONS_MAX), Scratch::default());
    for (i, (_, message)) in messages.iter().enumerate() {
        counts.push(message.as_bytes(), Some(i as i64), &mut scratch);
    }
    let mut classifier = counts.classifier();
    messages.iter().map(|(_, message)| classifier.pattern_of(message.as_bytes()).unwrap()).collect()
}

/// The share of messages whose pattern has exactly the messages of their true one.
fn grouping_accuracy(messages: &[(String, String)], found: &[PatternId]) -> f64 {
    let mut sizes: HashMap<PatternId, usize> = HashMap::new();
    let mut true_sizes: HashMap<&str, usize> = HashMap::new();
    let mut both: HashMap<(&str, PatternId), usize> = HashMap::new();
    for ((label, _), &id) in messages.iter().zip(found) {
        *sizes.entry(id).or_default() += 1;
        *true_sizes.entry(label).or_default() += 1;
        *both.entry((label, id)).or_default() += 1;
    }
    let right = both.iter().filter(|((label, id), n)| sizes[id] == **n && true_sizes[label] == **n);
    right.map(|(_, n)| n).sum::<usize>() as f64 / messages.len() as f64
}

const LOGS: [&str; 11] = [
    "Apache",
    "BGL",
    "HDFS",
    "HPC",
    "Hadoop",
    "HealthApp",
    "Linux",
    "OpenSSH",
    "OpenStack",
    "Spark",
    "Windows",
];

#[test]
fn patterns_are_those_that_people_find() {
    let mut sum = 0.0;
    for log in LOGS {
        let messages = labelled(log);
        let accuracy = grouping_accuracy(&messages, &ids(&messages));
        println!("{log} {accuracy:.4}");
        assert!(accuracy > 0.9, "{log}: {accuracy}");
        sum += accuracy;
    }
    let mean = sum / LOGS.len() as f64;
    println!("mean {mean:.4}");
    assert!(mean > 0.97, "{mean}");
}

#[test]
fn ids_stay_when_more_messages_come() {
    for log in LOGS {
        let messages = labelled(log);
        let half = &messages[..messages.len() / 2];
        let (early, late) = (ids(half), ids(&messages));
        let same = early.iter().zip(&late).filter(|(a, b)| a == b).count();
        let share = same as f64 / half.len() as f64;
        println!("{log} {share:.4}");
        assert!(share > 0.95, "{log}: {share}");
    }
}
