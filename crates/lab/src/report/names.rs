//! Short names of stores: a report says `elasticsearch` where the run measured one Elasticsearch,
//! and its table of stores says with which options.

use super::summary::Summary;

impl Summary {
    /// Names each store by the fewest parts that no other store of the run has: driver, instance,
    /// options. [`Summary::full_names`] has what is left out.
    pub fn shorten_names(&mut self) {
        let full: Vec<String> = self.run.stores.iter().map(|store| store.label.clone()).collect();
        let short = |label: &String| {
            let server = label.split(' ').next().unwrap_or(label);
            let driver = server.split('@').next().unwrap_or(server);
            let is_one = |name: &&str, end: &[char]| {
                full.iter().filter(|other| other.split(end).next() == Some(name)).count() == 1
            };
            let name = Some(driver).filter(|name| is_one(name, &['@', ' ']));
            let name = name.or(Some(server).filter(|name| is_one(name, &[' '])));
            name.unwrap_or(label).to_owned()
        };
        for label in &full {
            let name = short(label);
            if name != *label {
                self.rename(label, &name);
                self.full_names.insert(name, label.clone());
            }
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        let rename = |label: &mut String| {
            if label == from {
                to.clone_into(label);
            }
        };
        self.run.stores.iter_mut().for_each(|store| rename(&mut store.label));
        for experiment in &mut self.experiments {
            let repetitions = experiment.groups.iter_mut().flat_map(|group| {
                rename(&mut group.store);
                &mut group.repetitions
            });
            let limits = experiment.limits.iter_mut().map(|limit| {
                rename(&mut limit.store);
                &mut limit.trial
            });
            for trial in repetitions.chain(limits) {
                if let Some(usage) = trial.usage.remove(from) {
                    trial.usage.insert(to.to_owned(), usage);
                }
            }
        }
    }
}
