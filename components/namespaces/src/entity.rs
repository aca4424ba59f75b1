//! What a caller sees of a namespace: which fields are there, and which of them are null.
//!
//! | fields | who sees them |
//! |---|---|
//! | up to `web_url` | everybody who sees the namespace |
//! | the counts and sizes of a group | who owns it, administrators |
//! | limits of runners and storage | administrators, on the hosted site |
//! | `billable_members_count` | everybody, in the licensed edition |
//! | seats and end of a subscription | everybody, in the licensed edition on the hosted site, if there is one |
//! | `plan`, `trial`, `trial_ends_on` | who owns it, administrators, in the licensed edition |
//!
//! While billing is restricted, `billable_members_count` and the fields of a subscription are null
//! for those who neither own the namespace nor administer the service.

use crate::member::Counts;
use directory::namespace::Details;
use kit::path;
use serde::{Serialize, Serializer};

/// What the service is, for all namespaces of an answer.
#[derive(Debug, Clone, Copy)]
pub struct Service<'a> {
    /// The service's address without a trailing slash.
    pub url: &'a str,
    pub licensed: bool,
    /// Whether it is the operator's public site, which sells subscriptions.
    pub hosted: bool,
    /// The plan that is asked about instead of a namespace's own.
    pub requested_plan: Option<&'a str>,
}

/// What the caller may do with a namespace.
#[derive(Debug, Clone, Copy)]
pub struct Right {
    /// An administrator of the service.
    pub admin: bool,
    /// Owns the namespace; an administrator does.
    pub owner: bool,
    /// Whether what it costs is for owners only.
    pub billing_restricted: bool,
}

/// A namespace and what was found out about it.
#[derive(Debug)]
pub struct Facts<'a> {
    pub id: u64,
    pub name: &'a str,
    pub path: &'a str,
    pub full_path: String,
    pub parent_id: Option<u64>,
    pub is_group: bool,
    pub details: Details,
    /// The plan of the top-level namespace above.
    pub plan: Option<String>,
    /// Projects in a group and below.
    pub projects: u64,
    /// Of a group, if they are asked for ([`needs_counts`]).
    pub counts: Option<Counts>,
}

/// A field that may be left out, or there and null.
type Field<T> = Option<Shown<T>>;

#[derive(Debug, PartialEq)]
pub struct Shown<T>(Option<T>);

impl<T: Serialize> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

/// The answer's object.
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

/// Whether the members of a group must be counted to show it.
pub fn needs_counts(service: Service, right: Right, is_group: bool, details: &Details) -> bool {
    let billable = service.licensed && details.billable_members_count.is_none() && sees_billing(right);
    is_group && (right.owner || billable)
}

fn sees_billing(right: Right) -> bool {
    right.owner || !right.billing_restricted
}

/// Whether a subscription is recorded.
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

pub fn entity<'a>(service: Service, right: Right, facts: Facts<'a>) -> Entity<'a> {
    let Facts { details, counts, .. } = facts;
    let owned_group = right.owner && facts.is_group;
    let operated = right.admin && service.hosted;
    let subscribed = service.licensed && service.hosted && has_subscription(&details);
    let planned = service.licensed && right.owner;
    let no_plan = if service.hosted { "free" } else { "default" };
    let plan = facts.plan.unwrap_or_else(|| no_plan.to_owned());
    let billed_plan = service.requested_plan.filter(|_| service.hosted).unwrap_or(&plan);
    let without_guests = service.hosted && is_top_plan(billed_plan);
    let billable = match (details.billable_members_count, counts) {
        (Some(count), _) => count,
        (None, Some(counts)) if without_guests => counts.billable_without_guests,
        (None, Some(counts)) => counts.billable,
        // Whoever has a personal namespace is its only member.
        (None, None) => 1,
    };
    let web_path: Vec<String> = facts.full_path.split('/').map(path::encode).collect();
    let web_path = web_path.join("/");
    let web_url = match facts.is_group {
        true => format!("{}/groups/{web_path}", service.url),
        false => format!("{}/{web_path}", service.url),
    };
    /// A field that is there in one case only.
    fn field<T>(is_there: bool, value: Option<T>) -> Field<T> {
        is_there.then_some(Shown(value))
    }
    fn billing<T>(is_there: bool, right: Right, value: Option<T>) -> Field<T> {
        field(is_there, value.filter(|_| sees_billing(right)))
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
        billable_members_count: billing(service.licensed, right, Some(billable)),
        seats_in_use: billing(subscribed, right, Some(details.seats_in_use.unwrap_or(0))),
        max_seats_used: billing(subscribed, right, Some(details.max_seats_used.unwrap_or(0))),
        max_seats_used_changed_at: billing(
            subscribed,
            right,
            details.max_seats_used_changed_at.map(|moment| moment.to_iso()),
        ),
        end_date: billing(subscribed, right, details.end_date.map(|end| end.to_date())),
        plan: planned.then_some(plan),
        trial_ends_on: field(planned, details.trial_ends_on.map(|end| end.to_date())),
        trial: planned.then_some(details.trial.unwrap_or(false)),
    }
}
