//! Roles.

/// A role in a group or project, ordered by its rights. The numbers are the reference service's `access_level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    None = 0,
    /// Counts as a member, but gives no rights.
    MinimalAccess = 5,
    Guest = 10,
    Planner = 15,
    Reporter = 20,
    Developer = 30,
    Maintainer = 40,
    Owner = 50,
}

impl Role {
    const ALL: [Role; 8] = [
        Role::None,
        Role::MinimalAccess,
        Role::Guest,
        Role::Planner,
        Role::Reporter,
        Role::Developer,
        Role::Maintainer,
        Role::Owner,
    ];

    /// The role with this `access_level`.
    pub fn from_level(level: u64) -> Option<Self> {
        Role::ALL.into_iter().find(|role| role.level() == level)
    }

    pub fn level(self) -> u64 {
        self as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_the_access_levels_of_the_api() {
        for level in [0, 5, 10, 15, 20, 30, 40, 50] {
            assert_eq!(Role::from_level(level).map(Role::level), Some(level));
        }
        assert_eq!(Role::from_level(25), None);
        assert!(Role::Planner < Role::Reporter && Role::MinimalAccess < Role::Guest);
    }
}
