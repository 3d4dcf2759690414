//! Starting and stopping the work in the background.

use std::sync::Arc;

use super::Store;
use crate::background::{Step, run};
use crate::callbacks::StoreCallbacks;
use crate::error::StoreError;
use crate::sync::lock;

impl Store {
    /// Starts to seal, merge and re-encode segments and to delete lines in the background, until
    /// the store is closed. To be called once.
    ///
    /// Errors: no thread can be started.
    pub fn start_background(&self, callbacks: Arc<dyn StoreCallbacks>) -> Result<(), StoreError> {
        self.attach_background();
        let mut threads = lock(&self.background_threads);
        for (name, for_haste) in [("store-seal", false), ("store-seal-now", true)] {
            let (core, background) = (self.core.clone(), self.background.clone());
            let callbacks = callbacks.clone();
            let thread = std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || run(&core, &background, &*callbacks, for_haste))
                .map_err(StoreError::io(&self.core.config.data_dir, "start sealing for"))?;
            threads.push(thread);
        }
        Ok(())
    }

    /// Does one step of the background work in this thread: for tests and simulations, instead of
    /// [`start_background`](Self::start_background).
    pub fn background_step(&self, callbacks: &dyn StoreCallbacks) -> Step {
        self.attach_background();
        lock(&self.background).step(callbacks)
    }

    fn attach_background(&self) {
        self.core.signals.sealing.attach();
    }

    /// Stops the background threads. Rewrites under way are dropped, and begun again after the next
    /// start.
    pub(crate) fn stop_background(&self) {
        self.core.signals.sealing.signal.stop();
        for thread in std::mem::take(&mut *lock(&self.background_threads)) {
            if thread.join().is_err() {
                tracing::error!("sealing panicked; the next start resumes it");
            }
        }
        lock(&self.background).abandon();
    }
}
