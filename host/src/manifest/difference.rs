//! The differences between two manifests of a component.

use super::Component;

impl Component {
    /// The settings in which `other` differs, as the manifest and its documentation name them. The source is
    /// not among them.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let Self { id: _, source: _, grants, variables, allowed_hosts, declares_outbound, limits, .. } = self;
        let Self { route_limits, cache_policy, credentials, maintenance, .. } = self;
        let hosts = (allowed_hosts, declares_outbound) == (&other.allowed_hosts, &other.declares_outbound);
        let settings = [
            ("grants", **grants == *other.grants),
            ("variables", *variables == other.variables),
            ("allowed_outbound_hosts", hosts),
            ("limits", *limits == other.limits),
            ("limits of routes", *route_limits == other.route_limits),
            ("response cache", *cache_policy == other.cache_policy),
            ("credentials", *credentials == other.credentials),
            ("maintenance", *maintenance == other.maintenance),
        ];
        settings.into_iter().filter(|(_, is_equal)| !is_equal).map(|(name, _)| name).collect()
    }
}
