//! Further fields of groups and users: avatar, plan, trial, subscription, limits.

use super::deserialize;
use directory::namespace::Details;
use kit::Timestamp;
use serde::Deserialize;

#[derive(Deserialize)]
pub struct DetailsFields {
    avatar_url: Option<String>,
    plan: Option<String>,
    trial: Option<bool>,
    #[serde(default, deserialize_with = "deserialize::trial_ends_on")]
    trial_ends_on: Option<Timestamp>,
    #[serde(default, deserialize_with = "deserialize::end_date")]
    end_date: Option<Timestamp>,
    seats_in_use: Option<u64>,
    max_seats_used: Option<u64>,
    #[serde(default, deserialize_with = "deserialize::max_seats_used_changed_at")]
    max_seats_used_changed_at: Option<Timestamp>,
    shared_runners_minutes_limit: Option<u64>,
    extra_shared_runners_minutes_limit: Option<u64>,
    additional_purchased_storage_size: Option<u64>,
    #[serde(default, deserialize_with = "deserialize::additional_purchased_storage_ends_on")]
    additional_purchased_storage_ends_on: Option<Timestamp>,
    root_repository_size: Option<u64>,
    billable_members_count: Option<u64>,
}

impl From<DetailsFields> for Details {
    fn from(fields: DetailsFields) -> Self {
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        Details {
            avatar_url: text(fields.avatar_url),
            plan: text(fields.plan),
            trial: fields.trial,
            trial_ends_on: fields.trial_ends_on,
            end_date: fields.end_date,
            seats_in_use: fields.seats_in_use,
            max_seats_used: fields.max_seats_used,
            max_seats_used_changed_at: fields.max_seats_used_changed_at,
            shared_runners_minutes_limit: fields.shared_runners_minutes_limit,
            extra_shared_runners_minutes_limit: fields.extra_shared_runners_minutes_limit,
            additional_purchased_storage_size: fields.additional_purchased_storage_size,
            additional_purchased_storage_ends_on: fields.additional_purchased_storage_ends_on,
            root_repository_size: fields.root_repository_size,
            billable_members_count: fields.billable_members_count,
        }
    }
}
