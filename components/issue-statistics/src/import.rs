//! The import: lines of the request body, collected into batches.

use crate::index_writer;
use crate::issue::{self, Change, Issue};
use crate::segment::builder::SegmentBuilder;
use crate::store::IndexStore;
use directory::project;
use directory::reauthorization::AdminRequest;
use directory::user;
use kit::ndjson::{ImportReport, LineReader};
use kit::store::StoreError;
use kit::{Body, Env, Error};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// The longest line that is accepted, in bytes.
const MAX_LINE: usize = 4 << 20;

/// Applies every line of `body`, batch by batch. An invalid line is reported and skipped. If the body breaks off or
/// storage fails, earlier batches stay applied, and the client repeats the import. They also do if `request` is an
/// administrator's no more; then the error has their report.
pub async fn run(env: &Env, request: &AdminRequest, body: Body) -> Result<Imported, Error> {
    let mut import = Import {
        env: env.clone(),
        request,
        imported: Imported::default(),
        committed: ImportReport::default(),
        batch: SegmentBuilder::default(),
        incarnations: HashMap::new(),
        users: HashMap::new(),
    };
    let mut lines = LineReader::new(body, MAX_LINE);
    while let Some(line) = lines.next().await? {
        match line.text {
            Ok(text) => import.add_line(line.number, &text)?,
            Err(too_long) => import.imported.report.failed(line.number, too_long),
        }
    }
    import.commit()?;
    Ok(import.imported)
}

/// The outcome of the lines.
#[derive(Default)]
pub struct Imported {
    pub report: ImportReport,
    /// Why segments could not be merged, or replaced ones not deleted, for the log. The lines are applied all
    /// the same, and the next import tries again.
    pub compaction: Option<StoreError>,
}

struct Import<'a> {
    env: Env,
    request: &'a AdminRequest,
    imported: Imported,
    /// The report when the last batch was applied.
    committed: ImportReport,
    batch: SegmentBuilder,
    /// Of the projects of this batch.
    incarnations: HashMap<u64, Option<String>>,
    /// Of the users of this batch; `None` of the first ones with their ids.
    users: HashMap<u64, Option<String>>,
}

impl Import<'_> {
    fn add_line(&mut self, number: u64, line: &[u8]) -> Result<(), Error> {
        let mut change = match issue::parse(line) {
            Ok(change) => change,
            Err(error) => {
                self.imported.report.failed(number, error);
                return Ok(());
            }
        };
        if let Change::Upsert(issue) = &mut change {
            issue.project_incarnation = self.incarnation(issue.project_id())?;
            issue.later_users = self.later_users(issue)?;
        }
        self.batch.add(&change);
        self.imported.report.imported("issue");
        if self.batch.is_full() { self.commit() } else { Ok(()) }
    }

    /// The incarnation that issues of a project name. 1 read for each project of a batch.
    fn incarnation(&mut self, project_id: u64) -> Result<Option<String>, Error> {
        if let Some(known) = self.incarnations.get(&project_id) {
            return Ok(known.clone());
        }
        let incarnation = project::issues_incarnation(&self.env, project_id)?.id().map(str::to_owned);
        self.incarnations.insert(project_id, incarnation.clone());
        Ok(incarnation)
    }

    /// The incarnations of the issue's users who took the place of deleted ones. 1 read for each user of a batch.
    fn later_users(&mut self, issue: &Issue) -> Result<BTreeMap<u64, String>, Error> {
        let mut later = BTreeMap::new();
        for id in issue.user_ids() {
            let incarnation = match self.users.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let key = user::key_of(&self.env, id)?;
                    unknown.insert(key.incarnation.id().map(str::to_owned))
                }
            };
            if let Some(incarnation) = incarnation {
                later.insert(id, incarnation.clone());
            }
        }
        Ok(later)
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.incarnations.clear();
        self.users.clear();
        if !self.batch.is_empty() {
            self.request.authorize(&self.env).map_err(|error| self.committed.ended_by(error))?;
            let store = IndexStore::new(&self.env.with_current_time());
            index_writer::commit(&store, std::mem::take(&mut self.batch))?;
            self.committed = self.imported.report.clone();
            self.imported.compaction = index_writer::compact(&store).err();
        }
        Ok(())
    }
}
