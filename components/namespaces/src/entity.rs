//! The JSON form of a namespace: which fields a caller gets, and which of them are null.
//!
//! | fields | for |
//! |---|---|
//! | up to `web_url` | every caller who may read the namespace |
//! | the counts and sizes of a group | its owners, administrators |
//! | limits of runners and storage | administrators, on the hosted site |
//! | `billable_members_count` | every caller, in the licensed edition |
//! | seats and end of a subscription | every caller, in the licensed edition on the hosted site, if there is a subscription |
//! | `plan`, `trial`, `trial_ends_on` | its owners, administrators, in the licensed edition |
//!
//! While billing is restricted, only owners of the namespace and administrators get values of `billable_members_count`
//! and of the subscription fields. Other callers get null.

use crate::member_list::Counts;
use crate::web_url;
use directory::namespace::Details;
use serde::{Serialize, Serializer};

/// Properties of the service.
#[derive(Debug, Clone, Copy)]
pub struct Service<'a> {
    /// The service's base URL without a trailing slash.
    pub url: &'a str,
    pub licensed: bool,
    /// Whether this is the public site of the operator, which sells subscriptions.
    pub hosted: bool,
    /// The plan to use instead of the plan of the namespace, if the client asks for one.
    pub requested_plan: Option<&'a str>,
}

/// The caller's permissions on a namespace.
#[derive(Debug, Clone, Copy)]
pub struct Permissions {
    /// Whether the caller is an administrator of the service.
    pub admin: bool,
    /// Whether the caller is an owner of the namespace; administrators count as owners.
    pub owner: bool,
    /// Whether billing fields are for owners only.
    pub billing_restricted: bool,
}

/// The data of a namespace.
#[derive(Debug)]
pub struct NamespaceFacts<'a> {
    pub id: u64,
    pub name: &'a str,
    pub path: &'a str,
    pub full_path: String,
    pub parent_id: Option<u64>,
    pub is_group: bool,
    pub details: Details,
    /// The plan of its top-level namespace.
    pub plan: Option<String>,
    /// The number of projects in a group and its subgroups.
    pub projects: u64,
    /// Member counts of a group, if [`needs_counts`].
    pub counts: Option<Counts>,
}

/// A field that is absent, null or has a value.
type Field<T> = Option<Nullable<T>>;

#[derive(Debug, PartialEq)]
pub struct Nullable<T>(Option<T>);

impl<T: Serialize> Serialize for Nullable<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

/// The JSON object.
#[derive(Debug, PartialEq, Serialize)]
pub struct Entity<'a> {
    id: u64,
    name: &'a str,
    path: &'a str,
    kind: &'static str,
    full_path: String,
    parent_id: Option<u64>,
    avatar_url: Option<String>,
    web_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    members_count_with_descendants: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    root_repository_size: Field<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    projects_count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_runners_minutes_limit: Field<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_shared_runners_minutes_limit: Field<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_purchased_storage_size: Field<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    additional_purchased_storage_ends_on: Field<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    billable_members_count: Field<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seats_in_use: Field<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_seats_used: Field<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_seats_used_changed_at: Field<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_date: Field<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trial_ends_on: Field<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trial: Option<bool>,
}

/// Whether the response for a group needs its member counts.
pub fn needs_counts(service: Service, permissions: Permissions, is_group: bool, details: &Details) -> bool {
    let billable = service.licensed && details.billable_members_count.is_none() && sees_billing(permissions);
    is_group && (permissions.owner || billable)
}

fn sees_billing(permissions: Permissions) -> bool {
    permissions.owner || !permissions.billing_restricted
}

/// Whether the namespace has a subscription.
fn has_subscription(details: &Details) -> bool {
    details.plan.is_some()
        || details.trial.is_some()
        || details.trial_ends_on.is_some()
        || details.end_date.is_some()
        || details.seats_in_use.is_some()
        || details.max_seats_used.is_some()
        || details.max_seats_used_changed_at.is_some()
}

/// Whether guests are free in a plan.
fn is_top_plan(plan: &str) -> bool {
    matches!(plan, "gold" | "ultimate" | "ultimate_trial" | "ultimate_trial_paid_customer" | "opensource")
}

pub fn entity<'a>(service: Service, permissions: Permissions, facts: NamespaceFacts<'a>) -> Entity<'a> {
    let NamespaceFacts { details, counts, .. } = facts;
    let owned_group = permissions.owner && facts.is_group;
    let operated = permissions.admin && service.hosted;
    let subscribed = service.licensed && service.hosted && has_subscription(&details);
    let planned = service.licensed && permissions.owner;
    let no_plan = if service.hosted { "free" } else { "default" };
    let plan = facts.plan.unwrap_or_else(|| no_plan.to_owned());
    let billed_plan = service.requested_plan.filter(|_| service.hosted).unwrap_or(&plan);
    let without_guests = service.hosted && is_top_plan(billed_plan);
    let billable = match (details.billable_members_count, counts) {
        (Some(count), _) => count,
        (None, Some(counts)) if without_guests => counts.billable_without_guests,
        (None, Some(counts)) => counts.billable,
        // The only member of a personal namespace is its owner.
        (None, None) => 1,
    };
    let web_url = match facts.is_group {
        true => web_url::group(service.url, &facts.full_path),
        false => web_url::page(service.url, &facts.full_path),
    };
    fn field<T>(is_present: bool, value: Option<T>) -> Field<T> {
        is_present.then_some(Nullable(value))
    }
    fn billing<T>(is_present: bool, permissions: Permissions, value: Option<T>) -> Field<T> {
        field(is_present, value.filter(|_| sees_billing(permissions)))
    }
    Entity {
        id: facts.id,
        name: facts.name,
        path: facts.path,
        kind: if facts.is_group { "group" } else { "user" },
        full_path: facts.full_path,
        parent_id: facts.parent_id,
        avatar_url: details.avatar_url,
        web_url,
        members_count_with_descendants: counts.filter(|_| owned_group).map(|counts| counts.members),
        root_repository_size: field(owned_group, details.root_repository_size),
        projects_count: owned_group.then_some(facts.projects),
        shared_runners_minutes_limit: field(operated, details.shared_runners_minutes_limit),
        extra_shared_runners_minutes_limit: field(operated, details.extra_shared_runners_minutes_limit),
        additional_purchased_storage_size: field(
            operated,
            Some(details.additional_purchased_storage_size.unwrap_or(0)),
        ),
        additional_purchased_storage_ends_on: field(
            operated,
            details.additional_purchased_storage_ends_on.map(|end| end.to_date()),
        ),
        billable_members_count: billing(service.licensed, permissions, Some(billable)),
        seats_in_use: billing(subscribed, permissions, Some(details.seats_in_use.unwrap_or(0))),
        max_seats_used: billing(subscribed, permissions, Some(details.max_seats_used.unwrap_or(0))),
        max_seats_used_changed_at: billing(
            subscribed,
            permissions,
            details.max_seats_used_changed_at.map(|moment| moment.to_iso()),
        ),
        end_date: billing(subscribed, permissions, details.end_date.map(|end| end.to_date())),
        plan: planned.then_some(plan),
        trial_ends_on: field(planned, details.trial_ends_on.map(|end| end.to_date())),
        trial: planned.then_some(details.trial.unwrap_or(false)),
    }
}
