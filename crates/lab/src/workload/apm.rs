//! The records and workloads of the 2012 study of application performance monitoring.
//!
//! The study ran them with YCSB, so they are its core workload with other properties: keys of 25
//! bytes, five fields of ten, keys hashed and chosen uniformly among the loaded records, scans of
//! up to 50 rows. Records are only inserted, never updated.

use std::collections::BTreeMap;

use super::{Phase, Workload, WorkloadError};

/// Letters of `user`, the first of the 25 of a key; digits follow.
const KEY_DIGITS: u32 = 21;

/// A workload of the study as properties of YCSB.
pub fn properties(workload: &Workload) -> Result<BTreeMap<String, String>, WorkloadError> {
    let Workload::Apm { phase, records, read, scan, insert, scan_rows_max } = workload else {
        panic!("called only for workloads of this study");
    };
    if *phase == Phase::Run && u64::from(*read) + u64::from(*scan) + u64::from(*insert) != 100 {
        return Err(WorkloadError::Value {
            name: "read + scan + insert".to_owned(),
            value: (u64::from(*read) + u64::from(*scan) + u64::from(*insert)).to_string(),
            takes: "100 together".to_owned(),
        });
    }
    let properties = [
        ("table", "apm".to_owned()),
        ("recordcount", records.to_string()),
        ("fieldcount", "5".to_owned()),
        ("fieldlength", "10".to_owned()),
        ("zeropadding", KEY_DIGITS.to_string()),
        ("requestdistribution", "uniform".to_owned()),
        ("readproportion", read.to_string()),
        ("scanproportion", scan.to_string()),
        ("insertproportion", insert.to_string()),
        ("updateproportion", "0".to_owned()),
        ("maxscanlength", scan_rows_max.to_string()),
    ];
    let mut properties = properties
        .map(|(name, value)| (name.to_owned(), value))
        .into_iter()
        .collect::<BTreeMap<_, _>>();
    if *phase == Phase::Load {
        // Shares and scans do not matter for a load.
        for name in ["readproportion", "scanproportion", "insertproportion", "maxscanlength"] {
            properties.remove(name);
        }
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Operation;
    use crate::sending::Share;
    use crate::workload::Opening;

    fn workload(phase: Phase, [read, scan, insert]: [u32; 3]) -> Workload {
        Workload::Apm { phase, records: 1000, read, scan, insert, scan_rows_max: 50 }
    }

    #[test]
    fn records_have_the_studys_sizes() {
        let load = workload(Phase::Load, [0, 0, 0]);
        let plan = load.plan(&load.schema().unwrap(), &Opening::of(Share::default())).unwrap();
        let mut steps = plan.steps(0);
        let mut count = 0;
        while let Some(step) = steps.next() {
            let Operation::Insert(row) = step.request.operation else { panic!() };
            assert_eq!(row.key.to_string().len(), 25);
            assert!(row.values.iter().all(|value| value.to_string().len() == 10));
            assert_eq!(row.values.len(), 5);
            count += 1;
        }
        assert_eq!(count, 1000);
    }

    #[test]
    fn operations_have_the_shares_asked_for() {
        for shares in [[95, 0, 5], [1, 0, 99], [47, 47, 6]] {
            let run = workload(Phase::Run, shares);
            let plan = run.plan(&run.schema().unwrap(), &Opening::of(Share::default())).unwrap();
            let mut steps = plan.steps(0);
            let mut got = [0u32; 3];
            for _ in 0..10_000 {
                let step = steps.next().unwrap();
                got[match &step.request.operation {
                    Operation::Read { .. } => 0,
                    Operation::Scan { rows_max, .. } => {
                        assert!((1..=50).contains(rows_max));
                        1
                    }
                    Operation::Insert(_) => 2,
                    other => panic!("{other:?}"),
                }] += 1;
                steps.ended(&step.request, true);
            }
            for (got, share) in got.iter().zip(shares) {
                assert!(got.abs_diff(share * 100) < 200, "{got} of 10000, {share} %");
            }
        }
        assert!(properties(&workload(Phase::Run, [50, 0, 49])).is_err());
    }
}
