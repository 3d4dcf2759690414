//! What each kind of host logs, and how often: the mix of an ordinary day.

use super::world::{Context, HOSTS, Role, Said};
use super::{database, mail, network, orders, system, web};

/// Writes the message of one line, and returns its source.
pub type Template = fn(&mut Context<'_>, &mut Vec<u8>) -> Said;

/// Templates of a role, with their shares of its lines.
fn of_role(role: Role) -> &'static [(u32, Template)] {
    match role {
        Role::Web => &[(85, web::access), (2, web::error), (13, system::any)],
        Role::App => &[(88, orders::any), (12, system::any)],
        Role::Database => &[(75, database::any), (25, system::any)],
        Role::Mail => &[(85, mail::any), (15, system::any)],
        Role::Balancer => &[(90, web::haproxy), (10, system::any)],
        Role::Router => &[(100, network::any)],
        Role::Plain => &[(100, system::any)],
    }
}

/// Draws hosts and templates by their shares.
pub struct Mix {
    /// Cumulative shares of host and template.
    entries: Vec<(u32, usize, Template)>,
}

impl Mix {
    /// The mix of all hosts.
    pub fn new() -> Self {
        let mut entries = Vec::new();
        let mut sum = 0;
        for (place, host) in HOSTS.iter().enumerate() {
            for &(share, template) in of_role(host.role) {
                sum += host.weight * share;
                entries.push((sum, place, template));
            }
        }
        Mix { entries }
    }

    /// Host and template of an ordinary line.
    pub fn draw(&self, rng: &mut fastrand::Rng) -> (usize, Template) {
        let sum = self.entries.last().expect("there are hosts").0;
        let ticket = rng.u32(..sum);
        let at = self.entries.partition_point(|(upto, ..)| *upto <= ticket);
        let (_, host, template) = self.entries[at];
        (host, template)
    }
}
