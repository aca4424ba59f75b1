//! The suggestions that a note on a line makes.

use super::context::RequestContext;
use super::position::CommentedLine;
use super::text_budget::TextBudget;
use crate::store::{discussions, objects};
use crate::suggestion::Suggestion;
use crate::suggestion_block;
use kit::Error;

/// The most suggestions in one note. Earlier builds accepted 1,000.
const MAX_SUGGESTIONS: usize = 100;

/// The suggestions in a note on a line. A suggestion that the note had before its text was edited keeps its id.
pub fn make(
    context: &RequestContext,
    body: &str,
    line: &CommentedLine,
    former: &[Suggestion],
) -> Result<Vec<Suggestion>, Error> {
    let blocks = suggestion_block::parse(body);
    if blocks.is_empty() {
        return Ok(Vec::new());
    }
    if blocks.len() > MAX_SUGGESTIONS {
        let text = format!("the note has {} suggestions, and at most {MAX_SUGGESTIONS} are allowed", blocks.len());
        return Err(Error::bad_request(&text));
    }
    let Some(contents) = &line.contents else {
        let text = format!("suggestions can be made for files of at most {} bytes", objects::MAX_WHOLE);
        return Err(Error::bad_request(&text));
    };
    let mut budget = TextBudget::new();
    let mut suggestions = Vec::new();
    let mut former: Vec<&Suggestion> = former.iter().collect();
    for block in blocks {
        let new = Suggestion::new(0, block, line.line, contents);
        let replaced = contents.slice(&new.lines()).map_or(0, |lines| lines.len());
        budget.spend(replaced + new.to_content.len())?;
        let same = former.iter().position(|former| former.proposes_as(&new)).map(|place| former.remove(place).clone());
        suggestions.push(same.unwrap_or(new));
    }
    let count = suggestions.iter().filter(|suggestion| suggestion.id == 0).count();
    if count > 0 {
        let first = discussions::allocate_suggestion_ids(&context.env, count)?;
        let new = suggestions.iter_mut().filter(|suggestion| suggestion.id == 0);
        new.zip(first..).for_each(|(suggestion, id)| suggestion.id = id);
    }
    Ok(suggestions)
}

/// Protects the commented file from the sweep, so that the discussion's lines can be followed as long as the discussion
/// exists.
pub fn protect_file(context: &RequestContext, line: &CommentedLine) -> Result<(), Error> {
    if let Some(contents) = &line.contents {
        objects::copy_to_current(&context.env, line.file.repository, line.file.blob, contents.contents())?;
    }
    Ok(())
}
