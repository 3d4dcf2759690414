//! The queries of a study on another amount of lines: what a month of logs takes is carried on from
//! several amounts, and not from one.

use super::{DefinitionError, Experiment, Study};
use crate::workload::Workload;
use crate::workload::lines::{RECORDS_MAX, line};

/// Lines whose mean size stands for that of all.
const LINES_WEIGHED: u64 = 10_000;

/// An amount of lines as a name of a folder: `4gb`.
pub fn amount(bytes: u64) -> String {
    match bytes {
        whole if whole % 1_000_000_000 == 0 => format!("{}gb", whole / 1_000_000_000),
        _ => format!("{}mb", bytes.div_ceil(1_000_000)),
    }
}

impl Study {
    /// The experiments that query loaded lines, on about `bytes` of lines (as text) and no others.
    pub fn sized(&self, bytes: u64) -> Result<Study, DefinitionError> {
        let wrong = |reason: String| DefinitionError::Syntax { name: self.name.clone(), reason };
        let weighed: u64 = (1..=LINES_WEIGHED).map(|number| line::line(number).text_bytes()).sum();
        let rows_wanted = (bytes as f64 / weighed as f64 * LINES_WEIGHED as f64).round();
        let (mut study, mut loaded) = (self.clone(), Vec::new());
        for dataset in &mut study.datasets {
            let Some(fill) = &mut dataset.fill else { continue };
            let Workload::LineWrites { records } = &mut fill.workload else { continue };
            let batch = f64::from(fill.load.batch_rows.max(1));
            let batches = (rows_wanted / batch).ceil().max(1.0) as u64;
            *records = batches * u64::from(fill.load.batch_rows);
            fill.load.operations = Some(batches);
            loaded.push((dataset.name.clone(), *records));
        }
        study.experiments.retain_mut(|experiment: &mut Experiment| {
            let rows = loaded.iter().find(|(name, _)| *name == experiment.dataset);
            match (&mut experiment.workload, rows) {
                (Some(Workload::LineQueries(queries)), Some((_, rows)))
                    if queries.arriving.is_none() && !experiment.fresh =>
                {
                    queries.records = *rows;
                    true
                }
                _ => false,
            }
        });
        let experiments = &study.experiments;
        study.datasets.retain(|dataset| experiments.iter().any(|e| e.dataset == dataset.name));
        if study.experiments.is_empty() {
            return Err(wrong(
                "none of its experiments queries loaded lines; amounts of data are for studies as logstores".into(),
            ));
        }
        if rows_wanted > RECORDS_MAX as f64 {
            return Err(wrong(format!(
                "{} are more than {RECORDS_MAX} lines, whose answers are found in memory: take less",
                amount(bytes)
            )));
        }
        study.name = format!("{}-{}", self.name, amount(bytes));
        study.title = format!("{} On {}", self.title, amount(bytes));
        study.check()?;
        Ok(study)
    }
}

#[cfg(test)]
mod tests {
    use super::super::STUDIES;
    use super::*;
    use crate::scale::Scale;

    fn study(name: &str) -> Study {
        let text = STUDIES.iter().find(|(known, _)| *known == name).unwrap().1;
        Study::parse(name, text, Scale::Small).unwrap()
    }

    #[test]
    fn queries_are_about_the_lines_that_are_loaded() {
        let sized = study("logstores").sized(1_000_000_000).unwrap();
        let [dataset] = &sized.datasets[..] else { panic!("{:?}", sized.datasets) };
        let fill = dataset.fill.as_ref().unwrap();
        let Workload::LineWrites { records: rows } = fill.workload else { panic!() };
        // A line has 164 bytes.
        assert!((5_900_000..6_300_000).contains(&rows), "{rows}");
        assert_eq!(fill.load.operations.unwrap() * u64::from(fill.load.batch_rows), rows);
        let names: Vec<&str> = sized.experiments.iter().map(|e| &*e.name).collect();
        let expected = [
            "word",
            "phrase",
            "regex",
            "needle",
            "fields",
            "latest",
            "groups",
            "histogram",
            "cold",
        ];
        assert_eq!(names, expected);
        for experiment in &sized.experiments {
            let Some(Workload::LineQueries(queries)) = &experiment.workload else { panic!() };
            assert_eq!(queries.records, rows, "{}", experiment.name);
        }
        assert_eq!(sized.name, "logstores-1gb");
        // It is kept with its results as TOML.
        let text = toml::to_string(&sized).unwrap();
        assert_eq!(Study::parse("logstores", &text, Scale::Small).unwrap(), sized);
    }

    #[test]
    fn what_cannot_be_sized_says_why() {
        let said = |result: Result<Study, DefinitionError>| result.unwrap_err().to_string();
        assert!(said(study("ycsb").sized(1)).contains("logstores"));
        assert!(said(study("logstores").sized(1_000_000_000_000)).contains("take less"));
        assert_eq!([amount(4_000_000_000), amount(50_000_000)], ["4gb", "50mb"]);
    }
}
