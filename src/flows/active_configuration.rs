//! The configuration in force: shadows with their filed versions, compiled rules, models. Swapped whole on reload.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arc_swap::ArcSwap;
use jiff::Timestamp;

use crate::{
    budget::{self, PassedTasks, refusal_memory::RefusalMemory},
    watch::Watcher,
};
use umbra_domain::{CostControl, Event, Shadow, Trigger, TriggerMark, TriggerSource};
use umbra_llm::Gateway;
use umbra_store::{Store, StoreError};

/// The configuration in force, swapped whole on reload.
pub type RulesInForce = Arc<ArcSwap<ActiveConfiguration>>;

/// A shadow that is in force.
#[derive(Debug, Clone)]
pub struct ActiveShadow {
    /// Configuration of the shadow.
    pub shadow: Arc<Shadow>,
    /// Database number of this version.
    pub version_id: i32,
    /// Hash of this version.
    pub version: String,
}

/// The configuration in force.
pub struct ActiveConfiguration {
    /// The shadows, in the order of the file.
    pub shadows: Vec<ActiveShadow>,
    /// Compiled matcher of events to shadows.
    pub watcher: Watcher,
    /// Budget refusals that are known to be still in force.
    pub memory: RefusalMemory,
    /// Tasks known to have passed every cost floor.
    pub passed: PassedTasks,
    /// The models.
    pub gateway: Arc<Gateway>,
    /// Positions in `shadows` by version number, for reviews that are pinned to a version.
    by_version: HashMap<i32, usize>,
}

/// Reason why a configuration cannot come into force.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// An agent pattern is malformed.
    #[error(transparent)]
    Pattern(#[from] globset::Error),
    /// The versions cannot be filed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ActiveConfiguration {
    /// Files the versions of `shadows` and compiles their rules.
    ///
    /// # Errors
    /// A pattern is malformed, or the database does not answer; the configuration in force stays.
    pub async fn arm(store: &Store, shadows: Vec<Shadow>, gateway: Arc<Gateway>) -> Result<Self, RulesError> {
        let watcher = Watcher::compile(&shadows)?;
        let passed = PassedTasks::under(&shadows);
        let mut armed = Vec::with_capacity(shadows.len());
        for shadow in shadows {
            let version_id = store.shadows().file_version(&shadow).await?;
            armed.push(ActiveShadow { version: shadow.version(), shadow: Arc::new(shadow), version_id });
        }
        let by_version = armed.iter().enumerate().map(|(index, armed)| (armed.version_id, index)).collect();
        Ok(Self { shadows: armed, watcher, memory: RefusalMemory::default(), passed, gateway, by_version })
    }

    /// Returns the cost controls, in the order of `shadows`.
    pub fn controls(&self) -> Vec<&CostControl> {
        self.shadows.iter().map(|armed| &armed.shadow.cost_control).collect()
    }

    /// Returns the position of a shadow in `shadows`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.shadows.iter().position(|armed| armed.shadow.name == name)
    }

    /// Returns the time left of a shadow's local day; `None` for an unknown shadow.
    pub fn day_left(&self, shadow: &str, now: Timestamp) -> Option<std::time::Duration> {
        let armed = self.shadows.get(self.position(shadow)?)?;
        budget::day_end(now, &armed.shadow.cost_control.time_zone)?.duration_since(now).try_into().ok()
    }

    /// Returns the name of the first enabled shadow that watches this event by this trigger.
    pub fn first_watching(&self, event: &Event, trigger: Trigger) -> Option<String> {
        let mark = TriggerMark { name: trigger, source: TriggerSource::Declared, why: String::new() };
        let mut watching = self.watcher.matches(event, &[mark]).into_iter().filter_map(|m| self.shadows.get(m.shadow));
        watching.find(|armed| armed.shadow.enabled).map(|armed| armed.shadow.name.clone())
    }

    /// True if the shadow's model can be asked: otherwise it runs on the built-in checks.
    pub fn has_model(&self, shadow: &Shadow) -> bool {
        self.gateway.reviewer(&shadow.model).is_ok()
    }

    /// Returns the names of the shadows whose model can be asked.
    pub fn with_models(&self) -> HashSet<String> {
        let shadows = self.shadows.iter().map(|armed| &armed.shadow);
        shadows.filter(|shadow| self.has_model(shadow)).map(|shadow| shadow.name.clone()).collect()
    }

    /// Returns the shadow that a review was pinned to, if that version is in force.
    pub fn pinned(&self, version_id: i32) -> Option<Arc<Shadow>> {
        let armed = self.shadows.get(*self.by_version.get(&version_id)?)?;
        Some(Arc::clone(&armed.shadow))
    }
}
