//! What people save on the page: dashboards, short links to views, and macros. They are kept where
//! the programs run.

pub mod dashboards;
pub mod documents;
pub mod links;
pub mod macros;
pub mod mails;

use std::path::Path;
use std::sync::Arc;

use crate::data_dir::Documents;
use dashboards::Dashboards;
use links::{LINKS_EACH_MAX, LINKS_OF_TENANT_EACH_MAX, Links};
use macros::SavedMacros;

/// Dashboards, links and macros.
pub struct SavedViews {
    /// Dashboards of the page.
    pub dashboards: Dashboards,
    /// Short links to views of the page.
    pub links: Links,
    /// Macros of queries. None in a cluster on engines, whose nodes would know different ones.
    pub macros: Option<SavedMacros>,
}

impl SavedViews {
    /// Those that are kept in these documents, and the dashboards that are provided as files of a
    /// folder.
    pub fn new(
        dashboards: Arc<dyn Documents>,
        links: Arc<dyn Documents>,
        macros: Option<Arc<dyn Documents>>,
        provided: Option<&Path>,
    ) -> SavedViews {
        SavedViews {
            dashboards: Dashboards::new(dashboards, provided),
            links: Links::new(links, LINKS_EACH_MAX),
            macros: macros.map(SavedMacros::new),
        }
    }

    /// Those of a tenant, which has no macros of its own.
    pub fn of_tenant(dashboards: Arc<dyn Documents>, links: Arc<dyn Documents>) -> SavedViews {
        SavedViews {
            dashboards: Dashboards::new(dashboards, None),
            links: Links::new(links, LINKS_OF_TENANT_EACH_MAX),
            macros: None,
        }
    }
}
