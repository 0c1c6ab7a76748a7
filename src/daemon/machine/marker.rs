//! The marker of watch mode: asked of the store as it is now, and of what is cut.

use std::borrow::Cow;

use asat_core::check::Check;
use asat_core::version::Attributes;
use asat_core::{Code, Problem, StoreName, watch};
use asat_host::store::ask;

use super::Machine;

impl Machine {
    /// The value of a store's marker; nothing where nothing is certified yet.
    ///
    /// # Errors
    /// Where the store cannot be read, and [`Code::MarkerFailed`] where the marker gives nothing that could be a label.
    pub(in crate::daemon) fn marker(&self, name: &StoreName) -> Result<Option<String>, Problem> {
        let store = self.configured(name)?;
        let Some(config) = &store.watch else { return Ok(None) };
        let rows = ask(&store.path, &config.marker, config.deadline, store.limits.hold, &self.stopping)?;
        watch::value(&rows).map_err(|why| {
            let detail = format!("the marker of store {name} has no value: {why}");
            let hint = "correct `marker` in [store.watch]: it gives one number or text, or NULL";
            Problem::new(Code::MarkerFailed, detail, hint)
        })
    }

    /// What is asked of a content to be published with these attributes: where it is watch mode that publishes, its marker too.
    pub(super) fn demanded(&self, name: &StoreName, attributes: &Attributes) -> Cow<'_, [Check]> {
        let checks = self.checks(name);
        let watched = self.stores.get(name).and_then(|store| store.watch.as_ref());
        match (watched, attributes.marker()) {
            (Some(config), Some(_)) => {
                let marker = watch::check(&config.marker, config.deadline);
                Cow::Owned(checks.iter().cloned().chain([marker]).collect())
            }
            _ => Cow::Borrowed(checks),
        }
    }
}
