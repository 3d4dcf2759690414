//! Which addresses a client connects to, whatever names resolve to.
//!
//! The check is made of the addresses that the connection is made to, so that a name that resolves
//! to something else a moment later gets nowhere.

use std::fmt;
use std::net::IpAddr;

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

type Check = dyn Fn(IpAddr) -> Result<(), String> + Send + Sync;

/// Resolves names as usual, and gives the addresses that a check allows.
pub struct LimitedResolver {
    inner: DefaultResolver,
    check: Box<Check>,
}

impl LimitedResolver {
    /// The error of `check` says why an address is refused.
    pub fn new(check: impl Fn(IpAddr) -> Result<(), String> + Send + Sync + 'static) -> Self {
        LimitedResolver { inner: DefaultResolver::default(), check: Box::new(check) }
    }
}

impl fmt::Debug for LimitedResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LimitedResolver")
    }
}

impl Resolver for LimitedResolver {
    /// Errors: the name cannot be resolved; no address of it is allowed.
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        let mut refusal = String::new();
        for address in found.iter() {
            match (self.check)(address.ip()) {
                Ok(()) => allowed.push(*address),
                Err(why) => refusal = why,
            }
        }
        match allowed.is_empty() {
            true => Err(Error::Other(refusal.into())),
            false => Ok(allowed),
        }
    }
}
