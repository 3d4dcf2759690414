//! All integration tests of this crate, in one executable: each file by itself would link the crate
//! and its libraries again.

#![allow(missing_docs)]

mod damage_hot;
mod damage_sealed;
mod file;
mod fixtures;
mod joined;
mod sealed;
mod tenants;
