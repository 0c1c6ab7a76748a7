//! The marker of watch mode: asked of the store as it is now, and of what is cut.

use asat_core::check::Check;
use asat_core::version::Attributes;
use asat_core::{Code, Problem, StoreName, watch};

use super::Machine;

impl Machine {
    /// The value of a store's marker; nothing where nothing is certified yet.
    ///
    /// # Errors
    /// Where the store cannot be read, and [`Code::MarkerFailed`] where the marker gives nothing that could be a label.
    pub(in crate::daemon) fn marker(&self, name: &StoreName) -> Result<Option<String>, Problem> {
        let store = self.configured(name)?;
        let Some(config) = &store.watch else { return Ok(None) };
        let (limits, stopping) = (&store.limits, &self.stopping);
        let rows = self.workers.ask(&store.path, &config.marker, config.deadline, limits.hold, stopping)?;
        rows.marker().map_err(|why| {
            let detail = format!("the marker of store {name} has no value: {why}");
            let hint = "correct `marker` in [store.watch]: it gives one number or text, or NULL";
            Problem::new(Code::MarkerFailed, detail, hint)
        })
    }

    /// What is asked of a content to be published with these attributes: where it is watch mode that publishes, its marker too.
    pub(super) fn demanded(&self, name: &StoreName, attributes: &Attributes) -> Vec<Check> {
        let Ok(store) = self.configured(name) else { return Vec::new() };
        let by_watch = store.watch.as_ref().filter(|_| attributes.marker().is_some());
        let marker = by_watch.map(|config| watch::check(&config.marker, config.deadline));
        store.checks.iter().cloned().chain(marker).collect()
    }
}
