//! YCSB's property files as the core workload interprets them. Defaults are those of its
//! `CoreWorkload`.

use std::collections::BTreeMap;

use super::WorkloadError;

/// The public core workloads A to F, by name.
pub const CORE: [(&str, &str); 6] = [
    ("a", include_str!("../../../workloads/ycsb/a.properties")),
    ("b", include_str!("../../../workloads/ycsb/b.properties")),
    ("c", include_str!("../../../workloads/ycsb/c.properties")),
    ("d", include_str!("../../../workloads/ycsb/d.properties")),
    ("e", include_str!("../../../workloads/ycsb/e.properties")),
    ("f", include_str!("../../../workloads/ycsb/f.properties")),
];

/// Limit of the fields of a record, so that a table can have as many columns.
const FIELDS_MAX: u64 = 1000;

/// Limit of the bytes of a field.
const FIELD_LENGTH_MAX: u64 = 1 << 20;

/// Limit of proportions, which are relative to each other; it only keeps their sum finite.
const SHARE_MAX: f64 = 1e6;

/// Limit of the rows of a scan.
const SCAN_MAX: u64 = 1_000_000;

/// Limit of the records, so that the numbers of inserts never overflow.
const RECORDS_MAX: u64 = 1 << 48;

/// Parses a property file: `name=value` (or `:`, or a blank), comments after `#` or `!`, and lines
/// continued with `\`.
pub fn parse(text: &str) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim().to_owned();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        while line.ends_with('\\') {
            line.pop();
            line.push_str(lines.next().unwrap_or_default().trim());
        }
        let end = line.find(|c: char| matches!(c, '=' | ':') || c.is_whitespace());
        let (name, rest) = line.split_at(end.unwrap_or(line.len()));
        let rest = rest.trim_start();
        let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
        properties.insert(name.to_owned(), value.trim().to_owned());
    }
    properties
}

/// Replaces the property `core`, which YCSB does not have, by the properties of the named public
/// core workload; other properties override these.
pub fn expand(properties: &mut BTreeMap<String, String>) -> Result<(), WorkloadError> {
    let Some(name) = properties.remove("core") else { return Ok(()) };
    let Some((_, text)) = CORE.iter().find(|(core, _)| *core == name) else {
        return Err(WorkloadError::Value {
            name: "core".into(),
            value: name,
            takes: CORE.map(|(core, _)| core).join(", "),
        });
    };
    for (name, value) in parse(text) {
        properties.entry(name).or_insert(value);
    }
    Ok(())
}

/// The distribution of requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// `uniform`
    Uniform,
    /// `zipfian`
    Zipfian,
    /// `latest`
    Latest,
    /// `hotspot`: the hot share of the data, and the share of the operations on it.
    Hotspot {
        /// `hotspotdatafraction`
        data: f64,
        /// `hotspotopnfraction`
        operations: f64,
    },
    /// `sequential`
    Sequential,
    /// `exponential`
    Exponential {
        /// `exponential.percentile`
        percentile: f64,
        /// `exponential.frac`
        fraction: f64,
    },
}

/// Parsed properties.
#[derive(Debug, Clone, PartialEq)]
pub struct Properties {
    /// `table`
    pub table: String,
    /// `recordcount`
    pub records: u64,
    /// `operationcount`; 0 where it is not set.
    pub operations: u64,
    /// `insertstart`
    pub insert_start: u64,
    /// `insertcount`
    pub insert_count: u64,
    /// `fieldcount`
    pub fields: usize,
    /// `fieldnameprefix`
    pub field_prefix: String,
    /// `fieldlength`
    pub field_length: usize,
    /// `minfieldlength`, if `fieldlengthdistribution` is `uniform`.
    pub field_length_min: Option<usize>,
    /// `writeallfields`
    pub write_all: bool,
    /// `dataintegrity`
    pub data_integrity: bool,
    /// `insertorder` is `hashed`.
    pub hashed: bool,
    /// `zeropadding`
    pub zero_padding: usize,
    /// Proportions of reads, updates, inserts, scans and read-modify-writes.
    pub shares: [f64; 5],
    /// `requestdistribution`
    pub distribution: Distribution,
    /// `minscanlength`
    pub scan_min: u64,
    /// `maxscanlength`
    pub scan_max: u64,
    /// `scanlengthdistribution` is `zipfian`.
    pub scan_zipfian: bool,
    /// Properties that were ignored.
    pub notes: Vec<String>,
}

/// Properties that do not concern the operations themselves, with what replaces them.
const ELSEWHERE: [(&str, &str); 8] = [
    ("workload", ""),
    ("readallfieldsbyname", ""),
    ("threadcount", "threads of the load"),
    ("target", "target_per_s of the load"),
    ("maxexecutiontime", "seconds of the load"),
    ("measurementtype", "HDR histograms"),
    ("hdrhistogram.percentiles", "all percentiles"),
    ("exportfile", "the directory of the results"),
];

/// Reads properties, and records which were read.
struct Reader<'a> {
    properties: &'a BTreeMap<String, String>,
    read: std::collections::BTreeSet<&'static str>,
}

impl<'a> Reader<'a> {
    fn text(&mut self, name: &'static str, default: &'a str) -> &'a str {
        self.read.insert(name);
        self.properties.get(name).map_or(default, |value| value.trim())
    }

    fn refuse<T>(&self, name: &str, takes: &str) -> Result<T, WorkloadError> {
        Err(WorkloadError::Value {
            name: name.to_owned(),
            value: self.properties.get(name).cloned().unwrap_or_default(),
            takes: takes.to_owned(),
        })
    }

    fn number(
        &mut self,
        name: &'static str,
        default: u64,
        from: u64,
        to: u64,
    ) -> Result<u64, WorkloadError> {
        self.read.insert(name);
        let Some(text) = self.properties.get(name) else { return Ok(default) };
        match text.trim().parse() {
            Ok(number) if (from..=to).contains(&number) => Ok(number),
            _ => self.refuse(name, &format!("a whole number from {from} to {to}")),
        }
    }

    fn fraction(
        &mut self,
        name: &'static str,
        default: f64,
        to: f64,
    ) -> Result<f64, WorkloadError> {
        self.read.insert(name);
        let Some(text) = self.properties.get(name) else { return Ok(default) };
        match text.trim().parse() {
            Ok(number) if (0.0..=to).contains(&number) => Ok(number),
            _ => self.refuse(name, &format!("a number from 0 to {to}")),
        }
    }

    fn word(
        &mut self,
        name: &'static str,
        default: &'static str,
        takes: &[&'static str],
    ) -> Result<&'static str, WorkloadError> {
        let text = self.text(name, default);
        match takes.iter().find(|word| **word == text) {
            Some(word) => Ok(word),
            None => self.refuse(name, &takes.join(", ")),
        }
    }

    fn truth(&mut self, name: &'static str, default: &'static str) -> Result<bool, WorkloadError> {
        Ok(self.word(name, default, &["true", "false"])? == "true")
    }
}

impl Properties {
    /// Refuses a property that is not supported.
    pub fn new(properties: &BTreeMap<String, String>) -> Result<Properties, WorkloadError> {
        let mut reader = Reader { properties, read: Default::default() };
        let r = &mut reader;
        let records = r.number("recordcount", 0, 1, RECORDS_MAX)?;
        if records == 0 {
            return r.refuse("recordcount", "a whole number from 1 on; it must be set");
        }
        let insert_start = r.number("insertstart", 0, 0, records - 1)?;
        let left = records - insert_start;
        let insert_count = match r.number("insertcount", left, 0, left)? {
            // As YCSB: nothing said.
            0 => left,
            count => count,
        };
        let field_length = r.number("fieldlength", 100, 1, FIELD_LENGTH_MAX)?;
        let field_length_min = r.number("minfieldlength", 1, 1, field_length)?;
        let lengths = r.word("fieldlengthdistribution", "constant", &["constant", "uniform"])?;
        let data_integrity = r.truth("dataintegrity", "false")?;
        if data_integrity && lengths != "constant" {
            return r.refuse("fieldlengthdistribution", "constant, with dataintegrity=true");
        }
        r.word("readallfields", "true", &["true"])?;
        r.number("core_workload_insertion_retry_limit", 0, 0, 0)?;
        let scan_min = r.number("minscanlength", 1, 1, SCAN_MAX)?;
        let shares = [
            r.fraction("readproportion", 0.95, SHARE_MAX)?,
            r.fraction("updateproportion", 0.05, SHARE_MAX)?,
            r.fraction("insertproportion", 0.0, SHARE_MAX)?,
            r.fraction("scanproportion", 0.0, SHARE_MAX)?,
            r.fraction("readmodifywriteproportion", 0.0, SHARE_MAX)?,
        ];
        if shares.iter().sum::<f64>() <= 0.0 {
            return r.refuse("readproportion", "with the other proportions more than 0");
        }
        let table = r.text("table", "usertable").to_owned();
        let field_prefix = r.text("fieldnameprefix", "field").to_owned();
        let is_name = |name: &str| {
            let rest =
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            rest && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.len() <= 48
        };
        for (name, value) in [("table", &table), ("fieldnameprefix", &field_prefix)] {
            if !is_name(value) {
                return r.refuse(name, "small letters, digits and `_`, the first a letter");
            }
        }
        let distribution = Properties::distribution(r)?;
        let class = r.text("workload", "CoreWorkload");
        if !class.ends_with("CoreWorkload") {
            return r.refuse("workload", "site.ycsb.workloads.CoreWorkload");
        }
        let mut parsed = Properties {
            table,
            records,
            operations: r.number("operationcount", 0, 0, u64::MAX)?,
            insert_start,
            insert_count,
            fields: r.number("fieldcount", 10, 1, FIELDS_MAX)? as usize,
            field_prefix,
            field_length: field_length as usize,
            field_length_min: (lengths == "uniform").then_some(field_length_min as usize),
            write_all: r.truth("writeallfields", "false")?,
            data_integrity,
            hashed: r.word("insertorder", "hashed", &["hashed", "ordered"])? == "hashed",
            zero_padding: r.number("zeropadding", 1, 0, 100)? as usize,
            shares,
            distribution,
            scan_min,
            scan_max: r.number("maxscanlength", 1000.max(scan_min), scan_min, SCAN_MAX)?,
            scan_zipfian: r.word("scanlengthdistribution", "uniform", &["uniform", "zipfian"])?
                == "zipfian",
            notes: Vec::new(),
        };
        parsed.notes = reader.notes();
        Ok(parsed)
    }

    fn distribution(r: &mut Reader) -> Result<Distribution, WorkloadError> {
        // Read whatever the distribution is, because files set them together with others.
        let data = r.fraction("hotspotdatafraction", 0.2, 1.0)?;
        let operations = r.fraction("hotspotopnfraction", 0.8, 1.0)?;
        let percentile = r.fraction("exponential.percentile", 95.0, 100.0)?;
        let fraction = r.fraction("exponential.frac", 0.8571428571, SHARE_MAX)?;
        let words = ["uniform", "zipfian", "latest", "hotspot", "sequential", "exponential"];
        Ok(match r.word("requestdistribution", "uniform", &words)? {
            "zipfian" => Distribution::Zipfian,
            "latest" => Distribution::Latest,
            "hotspot" => Distribution::Hotspot { data, operations },
            "sequential" => Distribution::Sequential,
            "exponential" if percentile <= 0.0 || percentile >= 100.0 => {
                return r.refuse("exponential.percentile", "more than 0 and less than 100");
            }
            "exponential" if fraction <= 0.0 => {
                return r.refuse("exponential.frac", "more than 0");
            }
            "exponential" => Distribution::Exponential { percentile, fraction },
            _ => Distribution::Uniform,
        })
    }

    /// Share of inserts among all operations.
    pub fn insert_share(&self) -> f64 {
        self.shares[2] / self.shares.iter().sum::<f64>()
    }
}

impl Reader<'_> {
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for name in self.properties.keys().filter(|name| !self.read.contains(name.as_str())) {
            notes.push(match ELSEWHERE.iter().find(|(elsewhere, _)| elsewhere == name) {
                Some((_, "")) => continue,
                Some((_, instead)) => {
                    format!("property {name} is passed over: {instead} take its place")
                }
                None => format!("property {name} is not known and passed over"),
            });
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Properties, WorkloadError> {
        Properties::new(&parse(text))
    }

    #[test]
    fn files_are_read_as_java_reads_them() {
        let text = "# a comment\n! another\n\n recordcount = 1000 \nreadproportion:0.5\nupdateproportion 0.5\n\
                    table=user\\\n  table\nempty=\nexponential.frac=0.5\n";
        let expected = [
            ("empty", ""),
            ("exponential.frac", "0.5"),
            ("readproportion", "0.5"),
            ("recordcount", "1000"),
            ("table", "usertable"),
            ("updateproportion", "0.5"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(parse(text), BTreeMap::from(expected));
    }

    #[test]
    fn the_core_workloads_are_the_public_ones() {
        let shares: Vec<_> = CORE
            .iter()
            .map(|(name, text)| {
                let properties = of(text).unwrap();
                assert_eq!(properties.notes, [""; 0], "{name}");
                assert_eq!((properties.fields, properties.field_length), (10, 100));
                (*name, properties.shares, properties.distribution)
            })
            .collect();
        use Distribution::{Latest, Zipfian};
        let expected = [
            ("a", [0.5, 0.5, 0.0, 0.0, 0.0], Zipfian),
            ("b", [0.95, 0.05, 0.0, 0.0, 0.0], Zipfian),
            ("c", [1.0, 0.0, 0.0, 0.0, 0.0], Zipfian),
            ("d", [0.95, 0.0, 0.05, 0.0, 0.0], Latest),
            ("e", [0.0, 0.0, 0.05, 0.95, 0.0], Zipfian),
            ("f", [0.5, 0.0, 0.0, 0.0, 0.5], Zipfian),
        ];
        assert_eq!(shares, expected);
        assert_eq!(of(CORE[4].1).unwrap().scan_max, 100);
    }

    #[test]
    fn a_core_workload_stands_for_its_file() {
        let mut properties = parse("core=d\nrecordcount=50000");
        expand(&mut properties).unwrap();
        let mut expected = parse(CORE[3].1);
        expected.insert("recordcount".into(), "50000".into());
        assert_eq!(properties, expected);
        let error = expand(&mut parse("core=g")).unwrap_err().to_string();
        assert_eq!(error, "core = g: it takes a, b, c, d, e, f");
    }

    #[test]
    fn what_is_not_supported_is_refused_and_what_is_unknown_is_noted() {
        let refused = [
            "",
            "recordcount=0",
            "recordcount=x",
            "readallfields=false",
            "requestdistribution=normal",
            "fieldlengthdistribution=histogram",
            "dataintegrity=true\nfieldlengthdistribution=uniform",
            "insertstart=10",
            "insertcount=11",
            "minscanlength=5\nmaxscanlength=4",
            "readproportion=-1",
            "readproportion=NaN",
            "readproportion=0\nupdateproportion=0",
            "table=a;drop",
            "workload=site.ycsb.workloads.TimeSeriesWorkload",
            "requestdistribution=exponential\nexponential.percentile=100",
            "core_workload_insertion_retry_limit=3",
        ];
        for text in refused {
            let whole = if text.contains("recordcount") || text.is_empty() {
                text.to_owned()
            } else {
                format!("recordcount=10\n{text}")
            };
            assert!(of(&whole).is_err(), "{text}");
        }
        let noted = of("recordcount=10\nfavouritecolour=blue\ntarget=100").unwrap().notes;
        assert_eq!(
            noted,
            [
                "property favouritecolour is not known and passed over",
                "property target is passed over: target_per_s of the load take its place",
            ]
        );
        let counts = of("recordcount=10\ninsertstart=4").unwrap();
        assert_eq!((counts.insert_start, counts.insert_count), (4, 6));
    }
}
