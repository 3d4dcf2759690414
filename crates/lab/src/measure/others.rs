//! The processor time that neither the servers nor the generator of a trial used.

use std::fmt;

use crate::number::percent;
use crate::results::{GENERATOR_ELSEWHERE, HOST, is_server};

/// Processors that others may use on average, as a share of all; more is interference.
pub const OTHERS_SHARE_MAX: f64 = 0.1;

/// Shorter trials say too little about what else ran on the machine, s.
const OTHERS_S_MIN: f64 = 1.5;

/// Programs, or virtual machines, that used a smaller share of the processors are not named.
const NAMED_SHARE_MIN: f64 = 0.01;

/// Processor time of a process, or of the whole machine, s.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessorTime {
    /// All of it. What other virtual machines took counts as time of the whole machine.
    pub cpu_s: f64,
    /// The part of it that interrupts took, mostly for the network between generator and servers.
    pub interrupts_s: f64,
    /// The part of it that other virtual machines took.
    pub stolen_s: f64,
}

/// The shares of all processors that others used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Others {
    /// Other programs and other virtual machines.
    pub share: f64,
    /// Other virtual machines alone, if the hypervisor tells.
    pub stolen_share: f64,
}

impl Others {
    /// What others used in a trial of this length, s, on a machine with `cores` processors, from
    /// the resources of the trial by name; `None` for short trials, and for servers elsewhere,
    /// whose work for the network would count as that of others.
    pub fn of<'a>(
        used: impl IntoIterator<Item = (&'a str, ProcessorTime)>,
        seconds: f64,
        cores: u32,
    ) -> Option<Others> {
        let (mut host_s, mut stolen_s, mut own_s, mut has_server) = (0.0, 0.0, 0.0, false);
        for (process, time) in used {
            match process {
                HOST => {
                    host_s += time.cpu_s - time.interrupts_s;
                    stolen_s += time.stolen_s;
                }
                GENERATOR_ELSEWHERE => {}
                _ => {
                    own_s += time.cpu_s;
                    has_server |= is_server(process);
                }
            }
        }
        let all_s = seconds * f64::from(cores.max(1));
        // Some kernels add stolen time to the processes that lost it. Then the difference does not
        // contain it.
        let others_s = f64::max(host_s - own_s, stolen_s).max(0.0);
        (has_server && seconds >= OTHERS_S_MIN)
            .then(|| Others { share: others_s / all_s, stolen_share: stolen_s / all_s })
    }

    /// Whether others used so much that the trial says little.
    pub fn is_interference(&self) -> bool {
        self.share > OTHERS_SHARE_MAX
    }
}

/// The alternate form, `{:#}`, is for the largest of several shares: "up to".
impl fmt::Display for Others {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs_share = self.share - self.stolen_share;
        let who = match (programs_share > NAMED_SHARE_MIN, self.stolen_share > NAMED_SHARE_MIN) {
            (_, false) => "other programs",
            (false, true) => "other virtual machines",
            (true, true) => "other programs and virtual machines",
        };
        let up_to = if f.alternate() { "up to " } else { "" };
        write!(f, "{who} used {up_to}{} of the processors", percent(self.share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::GENERATOR;

    /// Two processors for some seconds, of which servers and generator use `own_s`.
    fn of(host_s: f64, stolen_s: f64, own_s: f64, seconds: f64) -> Option<Others> {
        let time = |cpu_s| ProcessorTime { cpu_s, ..ProcessorTime::default() };
        let host = ProcessorTime { cpu_s: host_s + 1.0, interrupts_s: 1.0, stolen_s };
        let own = [("redis", time(own_s * 0.6)), (GENERATOR, time(own_s * 0.4))];
        let elsewhere = (GENERATOR_ELSEWHERE, time(100.0));
        Others::of(own.into_iter().chain([(HOST, host), elsewhere]), seconds, 2)
    }

    fn others(programs_s: f64, stolen_s: f64) -> Others {
        of(10.0 + programs_s + stolen_s, stolen_s, 10.0, 10.0).unwrap()
    }

    #[test]
    fn programs_and_virtual_machines_are_told_apart() {
        assert!(!others(1.0, 0.0).is_interference(), "5% is usual");
        assert!(others(3.0, 0.0).is_interference());
        let shown = |programs_s, stolen_s| format!("{}", others(programs_s, stolen_s));
        assert_eq!(shown(3.5, 0.1), "other programs used 18% of the processors");
        assert_eq!(shown(0.1, 3.5), "other virtual machines used 18% of the processors");
        assert_eq!(
            shown(1.0, 0.5),
            "other programs and virtual machines used 7.5% of the processors"
        );
        let most = format!("{:#}", others(3.0, 0.0));
        assert_eq!(most, "other programs used up to 15% of the processors");
    }

    #[test]
    fn what_was_stolen_counts_where_the_kernel_adds_it_to_processes() {
        assert_eq!(of(10.0, 4.0, 10.0, 10.0), Some(Others { share: 0.2, stolen_share: 0.2 }));
        // Ticks are coarse: the parts may be more than the whole.
        assert_eq!(of(9.9, 0.0, 10.0, 10.0), Some(Others { share: 0.0, stolen_share: 0.0 }));
        assert_eq!(of(9.9, 0.0, 10.0, 1.0), None, "too short");
        let host = ProcessorTime { cpu_s: 10.0, ..ProcessorTime::default() };
        assert_eq!(Others::of([(HOST, host)], 10.0, 2), None, "servers elsewhere");
    }
}
