//! The declared types of settings. A form has text only, and a setting is stored as the type that the
//! reference service declares for it.

use kit::params::Validation;
use serde_json::Value;

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingType {
    Boolean,
    Integer,
    /// Texts; as one text, separated by commas.
    List,
}

/// The declared type of a setting; `None` for text, and for a name that is not known.
pub fn declared(name: &str) -> Option<SettingType> {
    let is_in = |names: &[&str]| names.binary_search(&name).is_ok();
    if is_in(BOOLEANS) {
        Some(SettingType::Boolean)
    } else if is_in(INTEGERS) {
        Some(SettingType::Integer)
    } else if is_in(LISTS) {
        Some(SettingType::List)
    } else {
        None
    }
}

/// The value of a field of a form. Where no type is declared, `true` and `false` are booleans; a text
/// that is not of the declared type stays, for [`coerce`] to refuse.
pub fn from_text(name: &str, text: &str) -> Value {
    match (declared(name), text) {
        (None, "true") if !is_text(name) => Value::Bool(true),
        (None, "false") if !is_text(name) => Value::Bool(false),
        _ => text.into(),
    }
}

/// The settings of this service that are text.
pub const TEXTS: [&str; 4] = ["license", "operator_group", "analytics_api_base_url", "analytics_api_key"];

fn is_text(name: &str) -> bool {
    TEXTS.contains(&name)
}

/// `value` as the declared type of the setting; `checks` gets an error if it is not of that type.
/// `checks` is over the same settings.
pub fn coerce(name: &str, value: &Value, checks: &Validation) -> Option<Value> {
    match (declared(name)?, value) {
        (_, Value::Null) => None,
        (SettingType::Boolean, Value::Bool(_)) => None,
        (SettingType::Boolean, Value::String(_) | Value::Number(_)) => checks.boolean(name).map(Value::from),
        (SettingType::Integer, Value::String(_) | Value::Number(_)) => checks.integer(name).map(Value::from),
        (SettingType::List, Value::Array(_)) => None,
        (SettingType::List, Value::String(text)) => {
            Some(text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect())
        }
        _ => {
            checks.reject(format!("{name} is invalid"));
            None
        }
    }
}

/// Sorted.
const BOOLEANS: &[&str] = &[
    "admin_mode",
    "akismet_enabled",
    "allow_account_deletion",
    "allow_group_owners_to_manage_ldap",
    "allow_local_requests_from_system_hooks",
    "allow_local_requests_from_web_hooks_and_services",
    "allow_project_creation_for_guest_and_below",
    "allow_runner_registration_token",
    "allow_top_level_group_owners_to_create_service_accounts",
    "authorized_keys_enabled",
    "auto_devops_enabled",
    "automatic_purchased_storage_allocation",
    "bulk_import_enabled",
    "can_create_group",
    "can_create_organization",
    "check_namespace_plan",
    "container_expiration_policies_enable_historic_entries",
    "container_registry_expiration_policies_caching",
    "deactivate_dormant_users",
    "delete_inactive_projects",
    "delete_unconfirmed_users",
    "disable_admin_oauth_scopes",
    "disable_feed_token",
    "disable_overriding_approvers_per_merge_request",
    "disable_personal_access_tokens",
    "dns_rebinding_protection_enabled",
    "domain_denylist_enabled",
    "eks_integration_enabled",
    "elasticsearch_aws",
    "elasticsearch_indexing",
    "elasticsearch_limit_indexing",
    "elasticsearch_pause_indexing",
    "elasticsearch_search",
    "email_author_in_body",
    "email_restrictions_enabled",
    "enable_artifact_external_redirect_warning_page",
    "enable_member_promotion_management",
    "enforce_namespace_storage_limit",
    "enforce_terms",
    "external_authorization_service_enabled",
    "floc_enabled",
    "force_pages_access_control",
    "gitlab_dedicated_instance",
    "gitpod_enabled",
    "grafana_enabled",
    "gravatar_enabled",
    "group_owners_can_manage_default_branch_protection",
    "hashed_storage_enabled",
    "help_page_hide_commercial_content",
    "hide_third_party_offers",
    "hosted",
    "housekeeping_enabled",
    "html_emails_enabled",
    "include_optional_metrics_in_service_ping",
    "instance_level_ai_beta_features_enabled",
    "invisible_captcha_enabled",
    "keep_latest_artifact",
    "kroki_enabled",
    "lock_duo_features_enabled",
    "lock_math_rendering_limits_enabled",
    "lock_memberships_to_ldap",
    "lock_memberships_to_saml",
    "mailgun_events_enabled",
    "maintenance_mode",
    "math_rendering_limits_enabled",
    "mirror_available",
    "npm_package_requests_forwarding",
    "package_registry_allow_anyone_to_pull_option",
    "pages_domain_verification_enabled",
    "password_authentication_enabled_for_git",
    "password_authentication_enabled_for_web",
    "password_lowercase_required",
    "password_number_required",
    "password_symbol_required",
    "password_uppercase_required",
    "performance_bar_enabled",
    "plantuml_enabled",
    "prevent_merge_requests_author_approval",
    "prevent_merge_requests_committers_approval",
    "product_analytics_enabled",
    "project_export_enabled",
    "prometheus_metrics_enabled",
    "protected_ci_variables",
    "pypi_package_requests_forwarding",
    "recaptcha_enabled",
    "remember_me_enabled",
    "repository_checks_enabled",
    "require_admin_approval_after_user_signup",
    "require_admin_two_factor_authentication",
    "require_personal_access_token_expiry",
    "require_two_factor_authentication",
    "restrict_user_defined_variables",
    "secret_push_protection_available",
    "security_policy_global_group_approvers_enabled",
    "send_user_confirmation_email",
    "service_access_tokens_expiration_enforced",
    "shared_runners_enabled",
    "signup_enabled",
    "silent_mode_enabled",
    "slack_app_enabled",
    "snowplow_enabled",
    "sourcegraph_enabled",
    "sourcegraph_public_only",
    "spam_check_endpoint_enabled",
    "suggest_pipeline_enabled",
    "throttle_authenticated_api_enabled",
    "throttle_authenticated_packages_api_enabled",
    "throttle_authenticated_web_enabled",
    "throttle_protected_paths_enabled",
    "throttle_unauthenticated_api_enabled",
    "throttle_unauthenticated_enabled",
    "throttle_unauthenticated_packages_api_enabled",
    "throttle_unauthenticated_web_enabled",
    "unique_ips_limit_enabled",
    "update_runner_versions_enabled",
    "updating_name_disabled_for_users",
    "usage_ping_enabled",
    "usage_ping_features_enabled",
    "usage_ping_generation_enabled",
    "user_deactivation_emails_enabled",
    "user_defaults_to_private_profile",
    "user_oauth_applications",
    "user_show_add_ssh_key_message",
    "version_check_enabled",
    "web_ide_clientside_preview_enabled",
    "whats_new_enabled",
];

/// Sorted.
const INTEGERS: &[&str] = &[
    "ci_max_includes",
    "ci_max_total_yaml_size_bytes",
    "concurrent_bitbucket_import_jobs_limit",
    "concurrent_bitbucket_server_import_jobs_limit",
    "concurrent_github_import_jobs_limit",
    "container_registry_cleanup_tags_service_max_list_size",
    "container_registry_delete_tags_service_timeout",
    "container_registry_expiration_policies_worker_capacity",
    "container_registry_token_expire_delay",
    "deactivate_dormant_users_period",
    "decompress_archive_file_timeout",
    "default_branch_protection",
    "default_project_creation",
    "default_projects_limit",
    "deletion_adjourned_period",
    "diff_max_files",
    "diff_max_lines",
    "diff_max_patch_bytes",
    "downstream_pipeline_trigger_limit_per_project_user_sha",
    "dsa_key_restriction",
    "ecdsa_key_restriction",
    "ecdsa_sk_key_restriction",
    "ed25519_key_restriction",
    "ed25519_sk_key_restriction",
    "elasticsearch_client_request_timeout",
    "elasticsearch_indexed_field_length_limit",
    "elasticsearch_indexed_file_size_limit_kb",
    "elasticsearch_max_bulk_concurrency",
    "elasticsearch_max_bulk_size_mb",
    "file_template_project_id",
    "first_day_of_week",
    "geo_status_timeout",
    "git_two_factor_session_expiry",
    "gitaly_timeout_default",
    "gitaly_timeout_fast",
    "gitaly_timeout_medium",
    "group_download_export_limit",
    "group_export_limit",
    "group_import_limit",
    "housekeeping_full_repack_period",
    "housekeeping_gc_period",
    "housekeeping_incremental_repack_period",
    "housekeeping_optimize_repository_period",
    "inactive_projects_delete_after_months",
    "inactive_projects_min_size_mb",
    "inactive_projects_send_warning_email_after_months",
    "issues_create_limit",
    "local_markdown_version",
    "max_artifacts_content_include_size",
    "max_artifacts_size",
    "max_attachment_size",
    "max_decompressed_archive_size",
    "max_export_size",
    "max_import_remote_file_size",
    "max_import_size",
    "max_login_attempts",
    "max_number_of_repository_downloads",
    "max_number_of_repository_downloads_within_time_period",
    "max_pages_custom_domains_per_project",
    "max_pages_size",
    "max_personal_access_token_lifetime",
    "max_ssh_key_lifetime",
    "max_terraform_state_size_bytes",
    "max_yaml_depth",
    "max_yaml_size_bytes",
    "members_delete_limit",
    "minimum_password_length",
    "mirror_capacity_threshold",
    "mirror_max_capacity",
    "mirror_max_delay",
    "namespace_aggregation_schedule_lease_duration_in_seconds",
    "notes_create_limit",
    "package_registry_cleanup_policies_worker_capacity",
    "performance_bar_allowed_group_id",
    "pipeline_limit_per_project_user_sha",
    "project_download_export_limit",
    "project_export_limit",
    "project_import_limit",
    "project_jobs_api_rate_limit",
    "projects_api_rate_limit_unauthenticated",
    "push_event_activities_limit",
    "push_event_hooks_limit",
    "raw_blob_request_limit",
    "receive_max_input_size",
    "rsa_key_restriction",
    "search_rate_limit",
    "search_rate_limit_unauthenticated",
    "session_expire_delay",
    "shared_runners_minutes",
    "sidekiq_job_limiter_compression_threshold_bytes",
    "sidekiq_job_limiter_limit_bytes",
    "snippet_size_limit",
    "terminal_max_session_time",
    "throttle_authenticated_api_period_in_seconds",
    "throttle_authenticated_api_requests_per_period",
    "throttle_authenticated_packages_api_period_in_seconds",
    "throttle_authenticated_packages_api_requests_per_period",
    "throttle_authenticated_web_period_in_seconds",
    "throttle_authenticated_web_requests_per_period",
    "throttle_protected_paths_period_in_seconds",
    "throttle_protected_paths_requests_per_period",
    "throttle_unauthenticated_api_period_in_seconds",
    "throttle_unauthenticated_api_requests_per_period",
    "throttle_unauthenticated_packages_api_period_in_seconds",
    "throttle_unauthenticated_packages_api_requests_per_period",
    "throttle_unauthenticated_period_in_seconds",
    "throttle_unauthenticated_requests_per_period",
    "throttle_unauthenticated_web_period_in_seconds",
    "throttle_unauthenticated_web_requests_per_period",
    "two_factor_grace_period",
    "unconfirmed_users_delete_after_days",
    "unique_ips_limit_per_user",
    "unique_ips_limit_time_window",
    "users_get_by_id_limit",
];

/// Sorted.
const LISTS: &[&str] = &[
    "asset_proxy_allowlist",
    "asset_proxy_whitelist",
    "disabled_oauth_sign_in_sources",
    "domain_allowlist",
    "domain_denylist",
    "elasticsearch_namespace_ids",
    "elasticsearch_project_ids",
    "git_rate_limit_users_alertlist",
    "git_rate_limit_users_allowlist",
    "import_sources",
    "notes_create_limit_allowlist",
    "outbound_local_requests_allowlist",
    "outbound_local_requests_whitelist",
    "protected_paths",
    "repository_storages",
    "restricted_visibility_levels",
    "search_rate_limit_allowlist",
    "users_get_by_id_limit_allowlist",
    "valid_runner_registrars",
];

#[cfg(test)]
mod tests {
    use super::*;
    use kit::params::Params;
    use serde_json::json;

    #[test]
    fn names_are_sorted_and_have_one_type() {
        let all = [BOOLEANS, INTEGERS, LISTS];
        assert!(all.iter().all(|names| names.is_sorted_by(|a, b| a < b)));
        let mut names = all.concat();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_declared_type_decides() {
        let typed = |name: &str, value: Value| {
            let params = Params::from_json(json!({name: value}).as_object().unwrap()).unwrap();
            let checks = Validation::new(&params);
            let coerced = coerce(name, &value, &checks).unwrap_or(value);
            checks.finish().map(|()| coerced).map_err(|error| error.to_json()["error"].clone())
        };
        assert_eq!(typed("signup_enabled", json!("false")), Ok(json!(false)));
        assert_eq!(typed("signup_enabled", json!("1")), Ok(json!(true)));
        assert_eq!(typed("signup_enabled", json!(0)), Ok(json!(false)));
        assert_eq!(typed("signup_enabled", json!("maybe")), Err(json!("signup_enabled is invalid")));
        assert_eq!(typed("signup_enabled", json!([true])), Err(json!("signup_enabled is invalid")));
        assert_eq!(typed("max_attachment_size", json!("10")), Ok(json!(10)));
        assert_eq!(typed("max_attachment_size", json!("ten")), Err(json!("max_attachment_size is invalid")));
        assert_eq!(typed("domain_allowlist", json!("a.test, b.test")), Ok(json!(["a.test", "b.test"])));
        assert_eq!(typed("home_page_url", json!("10")), Ok(json!("10")), "text stays text");
    }

    #[test]
    fn a_form_says_true_and_false() {
        assert_eq!(from_text("another_switch", "false"), json!(false));
        assert_eq!(from_text("operator_group", "true"), json!("true"));
        assert_eq!(from_text("another_number", "10"), json!("10"));
        assert_eq!(from_text("signup_enabled", "maybe"), json!("maybe"));
    }
}
