//! What people save on the page: dashboards, and short links to views. They are kept where the
//! programs run.

pub mod dashboards;
pub mod documents;
pub mod links;

use std::path::Path;
use std::sync::Arc;

use crate::data_dir::Documents;
use dashboards::Dashboards;
use links::Links;

/// Dashboards and links.
pub struct SavedViews {
    /// Dashboards of the page.
    pub dashboards: Dashboards,
    /// Short links to views of the page.
    pub links: Links,
}

impl SavedViews {
    /// Those that are kept in these documents, and the dashboards that are provided as files of a
    /// folder.
    pub fn new(
        dashboards: Arc<dyn Documents>,
        links: Arc<dyn Documents>,
        provided: Option<&Path>,
    ) -> SavedViews {
        SavedViews { dashboards: Dashboards::new(dashboards, provided), links: Links::new(links) }
    }
}
