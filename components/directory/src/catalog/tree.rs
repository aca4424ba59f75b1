//! The tree of namespaces. Positions number the namespaces depth first, so a subtree is a range of positions. Projects
//! are sorted by their namespaces' positions, so the projects below a namespace are also a range. The tree omits
//! namespaces below a deleted one.

use super::table::{BANNED, Namespaces, Projects, partition};
use crate::user::UserKey;
use std::ops::Range;
use std::rc::Rc;

/// No row.
const NONE: u32 = u32::MAX;

pub struct Tree {
    /// The rows of the namespaces in the tree, by id.
    namespaces: Vec<u32>,
    /// By namespace row: the row of the parent.
    parents: Vec<u32>,
    /// By namespace row: the position; `NONE` if the namespace is not in the tree.
    positions: Vec<u32>,
    /// By position: the namespace's row.
    order: Vec<u32>,
    /// By position: the position after its subtree.
    ends: Vec<u32>,
    /// By project row: the namespace's row; `NONE` if the namespace is not in the tree.
    project_namespaces: Vec<u32>,
    /// The rows of all projects, by their namespaces' positions, then by id.
    projects: Vec<u32>,
    /// By position, and one more: the index in `projects` of the first project.
    first_projects: Vec<u32>,
    /// Users and the rows of their personal namespaces, by user.
    personal: Vec<(u64, u32)>,
    /// The banned users, by id.
    banned: Rc<[UserKey]>,
}

impl Tree {
    pub fn of(namespaces: &Namespaces, projects: &Projects) -> Self {
        let parents = parents(namespaces);
        let (order, ends) = depth_first(&parents);
        let mut positions = vec![NONE; parents.len()];
        for (position, row) in order.iter().enumerate() {
            put(&mut positions, *row, position as u32);
        }
        let present: Vec<u32> = (0..parents.len() as u32).filter(|row| get(&positions, *row) != NONE).collect();
        let found = rows_of(&namespaces.ids, projects.namespace_ids.iter().copied());
        let of_projects: Vec<u32> = found.map(|row| if get(&positions, row) == NONE { NONE } else { row }).collect();
        let (by_namespace, first_projects) =
            grouped(order.len(), of_projects.iter().map(|namespace| get(&positions, *namespace)));
        let owners =
            namespaces.owner_ids.iter().zip(0..).filter(|(owner, row)| **owner != 0 && get(&positions, *row) != NONE);
        let mut personal: Vec<(u64, u32)> = owners.map(|(owner, row)| (*owner, row)).collect();
        personal.sort_unstable();
        let is_banned = |row: u32| namespaces.owner_flags.get(row as usize).is_some_and(|flags| flags & BANNED != 0);
        let owner = |(id, row): &(u64, u32)| UserKey { id: *id, incarnation: namespaces.owner_incarnation(*row) };
        let banned = personal.iter().filter(|(_, row)| is_banned(*row)).map(owner).collect();
        Tree {
            namespaces: present,
            parents,
            positions,
            order,
            ends,
            project_namespaces: of_projects,
            projects: by_namespace,
            first_projects,
            personal,
            banned,
        }
    }

    pub fn namespaces(&self) -> &[u32] {
        &self.namespaces
    }

    /// The rows of all namespaces in the tree, parents first.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    pub fn parent(&self, row: u32) -> Option<u32> {
        Some(get(&self.parents, row)).filter(|parent| *parent != NONE)
    }

    pub fn position(&self, row: u32) -> Option<u32> {
        Some(get(&self.positions, row)).filter(|position| *position != NONE)
    }

    /// The positions of a namespace and all below it.
    pub fn range(&self, row: u32) -> Range<usize> {
        match self.position(row) {
            Some(position) => position as usize..get(&self.ends, position) as usize,
            None => 0..0,
        }
    }

    pub fn below(&self, row: u32) -> &[u32] {
        self.order.get(self.range(row)).unwrap_or_default()
    }

    pub fn namespace_of(&self, project: u32) -> Option<u32> {
        Some(get(&self.project_namespaces, project)).filter(|row| *row != NONE)
    }

    pub fn projects_below(&self, row: u32) -> &[u32] {
        self.projects_of(self.range(row))
    }

    pub fn projects_in(&self, row: u32) -> &[u32] {
        let range = self.range(row);
        self.projects_of(range.start..range.end.min(range.start + 1))
    }

    fn projects_of(&self, positions: Range<usize>) -> &[u32] {
        let first = |position: usize| get(&self.first_projects, position as u32) as usize;
        if positions.is_empty() {
            return &[];
        }
        self.projects.get(first(positions.start)..first(positions.end)).unwrap_or_default()
    }

    pub fn personal(&self, user_id: u64) -> Option<u32> {
        let found = self.personal.binary_search_by_key(&user_id, |(user, _)| *user).ok()?;
        self.personal.get(found).map(|(_, row)| *row)
    }

    pub fn banned(&self) -> &Rc<[UserKey]> {
        &self.banned
    }
}

fn get(column: &[u32], row: u32) -> u32 {
    column.get(row as usize).copied().unwrap_or(NONE)
}

fn put(column: &mut [u32], row: u32, value: u32) {
    if let Some(cell) = column.get_mut(row as usize) {
        *cell = value;
    }
}

/// The rows of `wanted` ids in the ascending `ids`; `NONE` for an id without a row. The last row is tried first,
/// because neighbours mostly want the same id.
fn rows_of(ids: &[u64], wanted: impl Iterator<Item = u64>) -> impl Iterator<Item = u32> {
    let mut last = 0;
    wanted.map(move |id| {
        if ids.get(last) != Some(&id) {
            last = partition(ids.len(), |row| ids.get(row).is_some_and(|other| *other < id));
        }
        if ids.get(last) == Some(&id) { last as u32 } else { NONE }
    })
}

/// The parent row of each namespace. A namespace whose parent has no row becomes its own parent, which keeps it out of
/// the tree like every cycle.
fn parents(namespaces: &Namespaces) -> Vec<u32> {
    let wanted = namespaces.parent_ids.iter().copied();
    let mut last = (0, NONE);
    let mut parents = Vec::with_capacity(namespaces.ids.len());
    for (row, parent_id) in wanted.enumerate() {
        if parent_id != 0 && parent_id != last.0 {
            let found = namespaces.ids.binary_search(&parent_id);
            last = (parent_id, found.map_or(NONE, |found| found as u32));
        }
        parents.push(match (parent_id, last.1) {
            (0, _) => NONE,
            (_, NONE) => row as u32,
            (_, parent) => parent,
        });
    }
    parents
}

/// The rows that are reachable from the top level, parents before children and siblings by row. Also the end of each
/// subtree.
fn depth_first(parents: &[u32]) -> (Vec<u32>, Vec<u32>) {
    let (children, first) = grouped(parents.len(), parents.iter().copied());
    let children_of = |row: u32| {
        let range = get(&first, row) as usize..get(&first, row + 1) as usize;
        children.get(range).unwrap_or_default()
    };
    let (mut order, mut ends) = (Vec::with_capacity(parents.len()), vec![0; parents.len()]);
    // A row to enter, or a position whose subtree is complete.
    enum Step {
        Enter(u32),
        Leave(u32),
    }
    let mut steps = Vec::new();
    for root in (0..parents.len() as u32).filter(|row| get(parents, *row) == NONE) {
        steps.push(Step::Enter(root));
        while let Some(step) = steps.pop() {
            match step {
                Step::Leave(position) => put(&mut ends, position, order.len() as u32),
                Step::Enter(row) => {
                    steps.push(Step::Leave(order.len() as u32));
                    order.push(row);
                    steps.extend(children_of(row).iter().rev().map(|child| Step::Enter(*child)));
                }
            }
        }
    }
    ends.truncate(order.len());
    (order, ends)
}

/// The rows with a group below `count`, sorted by group, then by row. Also the start of each group, and the end of the
/// last group.
fn grouped(count: usize, groups: impl Iterator<Item = u32> + Clone) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0_u32; count + 1];
    for group in groups.clone() {
        if let Some(next) = starts.get_mut((group as usize).saturating_add(1)) {
            *next += 1;
        }
    }
    let mut total = 0;
    for start in &mut starts {
        total += *start;
        *start = total;
    }
    let mut next = starts.clone();
    let mut rows = vec![0; total as usize];
    for (group, row) in groups.zip(0..) {
        if (group as usize) < count
            && let Some(index) = next.get_mut(group as usize)
        {
            put(&mut rows, *index, row);
            *index += 1;
        }
    }
    (rows, starts)
}
