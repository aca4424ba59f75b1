//! The blobs that the catalog reaches, for garbage collection, and checks of every record.

use crate::catalog::intent_log;
use crate::catalog::manifest::{Intent, Part, Root, RowKey, blob, manifest};
use crate::catalog::table::{MemberRow, NamespaceRow, ProjectRow, Row};
use crate::consistency::{self, CheckedRecord, Comparison, TokenLists, gate_problems, repair, token_lists};
use crate::demo::DemoRecord;
use crate::dependents::finish_interrupted;
use crate::feature::Features;
use crate::store::{self, Key};
use crate::token::Fingerprint;
use crate::user::User;
use kit::fsck::{self, CheckReport};
use kit::gc::{self, GcReport, GcRequest};
use kit::maintenance::Maintain;
use kit::reachability::{GcSource, KeyLayout, Node, StepError, Tracer};
use kit::store::StoreError;
use kit::{Env, root};
use serde::de::DeserializeOwned;

const PREFIX: &str = "directory/v1/";

/// The problem of missing settings or features.
const MISSING_SINGLETON: &str = "the record is missing: it is lost, unless the request that was to make it was \
                                 interrupted; restore a backup, or set one of its values again";

/// The directory's roots, records and blobs for [`kit::maintenance`].
pub struct DirectoryRoots<'a> {
    env: &'a Env,
    comparison: Comparison,
    token_lists: TokenLists,
}

impl<'a> DirectoryRoots<'a> {
    pub fn new(env: &'a Env) -> Self {
        DirectoryRoots { env, comparison: Comparison::default(), token_lists: TokenLists::default() }
    }
}

impl Maintain for DirectoryRoots<'_> {
    fn collect(&self, env: &Env, request: &GcRequest) -> Result<GcReport, StepError> {
        if request.cursor.is_none() && !request.dry_run {
            finish_interrupted(env)?;
        }
        gc::step(env, self, request)
    }

    fn check(&self, env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
        if cursor.is_some() {
            return fsck::step(env, self, cursor);
        }
        finish_interrupted(env)?;
        let mut report = fsck::step(env, self, cursor)?;
        consistency::singletons(env)?.iter().for_each(|key| report.add_problem(key, MISSING_SINGLETON.to_owned()));
        Ok(report)
    }

    fn repair(&self, env: &Env, cursor: Option<&str>) -> Result<CheckReport, StepError> {
        repair::step(env, cursor)
    }
}

impl GcSource for DirectoryRoots<'_> {
    fn layout(&self) -> KeyLayout {
        let below = |kinds: &[&str]| kinds.iter().map(|kind| format!("{PREFIX}{kind}")).collect();
        KeyLayout {
            roots: below(&["catalog"]),
            records: below(&[
                "access/",
                "demo",
                "features",
                "namespace/",
                "path/",
                "project/",
                "settings",
                "token/",
                "tokens/",
                "user/",
            ]),
            blobs: below(&["catalog/blob/"]),
            marks: format!("{PREFIX}gc/"),
        }
    }

    fn visit(&self, node: Node, tracer: &mut Tracer) -> Result<bool, StoreError> {
        let Node::Root(key) = node else { return Ok(true) };
        match key.strip_prefix(PREFIX) {
            Some("catalog") => self.visit_revision(tracer)?,
            Some("catalog/changes") => self.visit_intents(tracer)?,
            Some(name) if tracer.check && !name.ends_with("/init") => {
                let is_there = self.check_record(key, name)?;
                self.compare(key, tracer)?;
                return Ok(is_there);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl DirectoryRoots<'_> {
    /// Marks the blobs of the present revision. Its retired blobs are garbage, because a request that still reads them
    /// began before the run.
    fn visit_revision(&self, tracer: &mut Tracer) -> Result<(), StoreError> {
        let Some(Root { revision, .. }) = store::read(self.env, &Key::Catalog)? else { return Ok(()) };
        tracer.mark_id(&revision);
        let manifest = manifest(self.env, &revision)?;
        for part in manifest.namespaces.iter().chain(&manifest.projects).chain(&manifest.members) {
            tracer.mark_id(&part.blob);
        }
        if tracer.check {
            self.check_table::<NamespaceRow>(&manifest.namespaces, tracer)?;
            self.check_table::<ProjectRow>(&manifest.projects, tracer)?;
            self.check_table::<MemberRow>(&manifest.members, tracer)?;
            // Damage of a table was reported above.
            match self.comparison.missing(self.env) {
                Ok(missing) => missing.iter().for_each(|subject| {
                    tracer.report(subject.key(), "the record is missing, and the catalog has it; import it again, or remove what is left of it by `hexad fsck --repair`")
                }),
                Err(StoreError::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn check_table<R: Row>(&self, parts: &[Part], tracer: &mut Tracer) -> Result<(), StoreError> {
        let mut last = None;
        for part in parts {
            let outcome = self.check_part::<R>(part, &mut last, tracer);
            tracer.tolerate(outcome)?;
        }
        Ok(())
    }

    /// Checks a part. `last` is the last key of the previous part.
    fn check_part<R: Row>(
        &self,
        part: &Part,
        last: &mut Option<RowKey>,
        tracer: &mut Tracer,
    ) -> Result<(), StoreError> {
        let corrupt = |why| StoreError::corrupt(&Key::CatalogBlob(&part.blob).to_string(), why);
        let bytes = blob(self.env, &part.blob)?;
        tracer.read(bytes.len());
        let rows = R::decode(&bytes).ok_or_else(|| corrupt("no such rows"))?;
        if rows.len() != part.rows || rows.first().is_some_and(|row| row.key() != part.first) {
            return Err(corrupt("not the rows that the catalog says"));
        }
        for key in rows.iter().map(Row::key) {
            if last.is_some_and(|last| last >= key) {
                return Err(corrupt("its rows are not in order"));
            }
            *last = Some(key);
        }
        Ok(())
    }

    fn visit_intents(&self, tracer: &mut Tracer) -> Result<(), StoreError> {
        let intents = store::read::<Vec<Intent>>(self.env, &Key::CatalogChanges)?.unwrap_or_default();
        for intent in &intents {
            tracer.mark_id(&intent.blob);
            if tracer.check {
                let changes = intent_log::logged_changes(self.env, intent);
                tracer.tolerate(changes)?;
            }
        }
        Ok(())
    }

    /// Compares a record with the data that refers to it:
    /// - a record with the catalog and its path entry;
    /// - a path entry with its owner;
    /// - the features with the records in their gates;
    /// - a token with its user's list, and a list with its tokens.
    ///
    /// Damage of the other records is reported by their own visits.
    fn compare(&self, key: &str, tracer: &mut Tracer) -> Result<(), StoreError> {
        let token = key.strip_prefix(PREFIX).and_then(|name| Fingerprint::from_hex(name.strip_prefix("token/")?));
        let (key, problems) = match (CheckedRecord::of_key(key), token) {
            (Some(subject), _) => (key, self.comparison.problems(self.env, subject)),
            (None, Some(token)) => (Key::HIDDEN_TOKEN, self.token_lists.problem(self.env, &token).map(Vec::from_iter)),
            _ if *key == Key::Features.text() => (key, gate_problems(self.env)),
            _ if key.starts_with(Key::TOKEN_LISTS) => (key, token_lists::problems(self.env, key)),
            _ => (key, consistency::path_problem(self.env, key).map(Vec::from_iter)),
        };
        match problems {
            Ok(problems) => problems.iter().for_each(|problem| tracer.report(key, problem)),
            Err(StoreError::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Reads a record; false if it is deleted or of an unknown kind.
    fn check_record(&self, key: &str, name: &str) -> Result<bool, StoreError> {
        match name.split('/').next() {
            Some("access") => self.read::<store::MembershipsRecord>(key),
            Some("demo") => self.read::<DemoRecord>(key),
            Some("features") => self.read::<Features>(key),
            Some("namespace") => self.read::<store::NamespaceRecord>(key),
            Some("path") => self.read::<store::PathRecord>(key),
            Some("project") => self.read::<store::ProjectRecord>(key),
            Some("settings") => self.read::<serde_json::Map<String, serde_json::Value>>(key),
            Some("token") => self.read::<store::TokenRecord>(key).map_err(|error| match error {
                StoreError::Corrupt { .. } => StoreError::corrupt(Key::HIDDEN_TOKEN, "no token"),
                error => error,
            }),
            Some("tokens") if name == "tokens/migration" => self.read::<store::TokenMigrationRecord>(key),
            Some("tokens") => self.read::<store::UserTokensRecord>(key),
            Some("user") => self.read::<User>(key),
            _ => Ok(false),
        }
    }

    /// Reads a record; false if it is `null`, which means deleted.
    fn read<R: DeserializeOwned>(&self, key: &str) -> Result<bool, StoreError> {
        root::read::<Option<R>>(&*self.env.store, key).map(|record| record.is_some())
    }
}

#[cfg(test)]
mod tests;
