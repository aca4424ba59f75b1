//! Manifests that are added to an application's own (`hexad up --with`). An added manifest brings components, routes and
//! variables of its own, and takes nothing of what the application has.

use super::error::Problems;
use super::router::{Router, overlap, words};
use super::{Component, Manifest, ManifestError};

/// The paths below which an added route must not meet the application's own ones.
const KEPT: [&[&str]; 2] = [&["api", "v4"], &["-"]];

impl Manifest {
    /// Adds the components, routes and variables of another manifest. The error names everything that meets the
    /// application's: ids, routes, variables, and key prefixes in a store that both open.
    pub fn add(&mut self, added: Self) -> Result<(), ManifestError> {
        let mut problems = Problems::default();
        for name in added.variable_names.intersection(&self.variable_names) {
            problems.add(format!(
                "[variables] {name}: the application declares a variable of this name, whose value would be shared; rename it"
            ));
        }
        for component in &added.components {
            let id = &component.id;
            if self.components.iter().any(|own| own.id == *id) {
                problems.add(format!("[component.{id}]: the application has a component of this id; rename it"));
            }
            problems.keep(self.components.iter().try_for_each(|own| check_prefixes(component, own)));
        }
        for route in &added.routes {
            if let Some(own) = self.routes.iter().find(|own| takes(&route.pattern, &own.pattern)) {
                problems.add(format!(
                    "[[trigger.http]] with route {}: the application answers paths of it at {} (component {}); choose \
                     another route",
                    route.pattern, own.pattern, own.component
                ));
            }
        }
        problems.check(&added.path)?;
        self.variable_names.extend(added.variable_names);
        self.components.extend(added.components);
        self.routes.extend(added.routes);
        self.former_names.extend(added.former_names);
        Ok(())
    }
}

fn check_prefixes(added: &Component, own: &Component) -> Result<(), String> {
    let Some(label) = added.grants.labels().find(|label| own.grants.labels().any(|own| own == *label)) else {
        return Ok(());
    };
    // What a component may write, it may read.
    for prefix in added.grants.readable() {
        let met = own.grants.readable().iter().find(|own| prefix.starts_with(*own) || own.starts_with(prefix));
        if let Some(met) = met {
            let (id, own_id) = (&added.id, &own.id);
            return Err(format!(
                "[component.{id}.tool.hexad]: its keys \"{prefix}\" meet \"{met}\" of the application's component {own_id} in \
                 the store \"{label}\"; say write = [\"{id}/\"], for example"
            ));
        }
    }
    Ok(())
}

/// Whether a route takes paths of the application. It keeps its own routes, those below [`KEPT`], and paths of any name.
fn takes(route: &str, own: &str) -> bool {
    let begins = |pattern, kept: &[&str]| words(pattern).take(kept.len()).eq(kept.iter().copied());
    let is_kept = || KEPT.iter().any(|kept| begins(route, kept) && begins(own, kept));
    let has_any_name =
        |pattern| words(pattern).next().is_some_and(|first| first.starts_with([':', '*']) || first == "...");
    let is_equal = || Router::new([(route.to_owned(), ()), (own.to_owned(), ())]).is_err();
    overlap(route, own) && (is_kept() || has_any_name(route) && has_any_name(own) || is_equal())
}
