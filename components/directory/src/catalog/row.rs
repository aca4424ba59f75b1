//! Records as rows of the catalog, with numbers instead of words. An unknown number means the least access.

use super::manifest::RowKey;
use super::table::{self, ACTIVE, ADMIN, BANNED, BOT, DetailsJson, EXTERNAL, MemberRow, NamespaceRow, ProjectRow};
use crate::member::{self, Membership, Source};
use crate::namespace::Visibility;
use crate::project::FeatureAccess;
use crate::store::{self, ShareRecord};
use crate::user::{User, UserState};

pub fn visibility(number: u8) -> Visibility {
    match number {
        1 => Visibility::Internal,
        2 => Visibility::Public,
        _ => Visibility::Private,
    }
}

fn number_of_visibility(visibility: Visibility) -> u8 {
    match visibility {
        Visibility::Private => 0,
        Visibility::Internal => 1,
        Visibility::Public => 2,
    }
}

pub fn feature_access(number: u8) -> FeatureAccess {
    match number {
        1 => FeatureAccess::Private,
        2 => FeatureAccess::Enabled,
        3 => FeatureAccess::Public,
        _ => FeatureAccess::Disabled,
    }
}

fn number_of_feature_access(access: FeatureAccess) -> u8 {
    match access {
        FeatureAccess::Disabled => 0,
        FeatureAccess::Private => 1,
        FeatureAccess::Enabled => 2,
        FeatureAccess::Public => 3,
    }
}

pub fn shares(column: &[(u32, Vec<ShareRecord>)], row: u32) -> Vec<member::Share> {
    table::sparse(column, row).into_iter().flatten().cloned().map(member::Share::from).collect()
}

/// The row of a namespace. `owner` is the user of a personal namespace.
pub fn namespace(id: u64, record: store::NamespaceRecord, owner: Option<&User>) -> NamespaceRow {
    let bit = |bit: u8, is_set: bool| if is_set { bit } else { 0 };
    let details = record.details.as_ref().and_then(|details| serde_json::to_string(details).ok());
    let banned = owner.filter(|user| user.state == UserState::Banned);
    NamespaceRow {
        id,
        parent_id: record.parent_id.unwrap_or(0),
        owner_id: record.owner_id.unwrap_or(0),
        owner_flags: owner.map_or(0, |user| {
            bit(ACTIVE, user.state == UserState::Active)
                | bit(BOT, user.bot)
                | bit(ADMIN, user.is_admin)
                | bit(EXTERNAL, user.external)
                | bit(BANNED, user.state == UserState::Banned)
        }),
        owner_incarnation: banned.and_then(|user| user.incarnation.id()).unwrap_or_default().to_owned(),
        visibility: number_of_visibility(record.visibility()),
        details: DetailsJson(details.unwrap_or_default()),
        path: record.path,
        name: record.name,
        shares: record.shares,
    }
}

pub fn project(id: u64, record: store::ProjectRecord) -> ProjectRow {
    ProjectRow {
        id,
        namespace_id: record.namespace_id,
        visibility: number_of_visibility(record.visibility()),
        issues: number_of_feature_access(record.issues()),
        archived: u8::from(record.archived),
        issues_incarnation: record.issues_incarnation.id().unwrap_or_default().to_owned(),
        path: record.path,
        name: record.name,
        shares: record.shares,
        pages_domain: record.pages_unique_domain.unwrap_or_default(),
    }
}

/// The number of a group or project, in one series for both.
pub fn source_code(source: Source) -> u64 {
    match source {
        Source::Group(id) => id.saturating_mul(2),
        Source::Project(id) => id.saturating_mul(2).saturating_add(1),
    }
}

/// The group or project with this number.
pub fn source_of_code(code: u64) -> Source {
    if code.is_multiple_of(2) { Source::Group(code / 2) } else { Source::Project(code / 2) }
}

pub fn member((source, user_id): RowKey, membership: &Membership) -> MemberRow {
    let expires_at = membership.expires_at.map_or(i64::MAX, |end| end.millis());
    MemberRow { source, user_id, role: membership.role.level() as u8, expires_at }
}
