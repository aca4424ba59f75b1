//! Answers on their way to clients, which are remembered once they are complete.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::pending_body::Draft;
use super::{Answer, CHUNK_OVERHEAD, Content, MAX_BODY, Memo, OVERHEAD, Question, SMALL_BODY};

/// An answer on its way to the client, which is remembered once it is complete.
pub struct Recording {
    pub(super) memo: Arc<Memo>,
    pub(super) question: Question,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// What was heard so far, while it is little.
    pub(super) chunks: Vec<Bytes>,
    /// Where it is once it is much.
    pub(super) draft: Option<Weak<Draft>>,
    /// What it costs, in bytes.
    pub(super) length: usize,
}

impl Recording {
    /// A part of the body goes to the client. False if it is too much to be remembered, or too many
    /// want to remember as much.
    pub fn hears(&mut self, chunk: &Bytes) -> bool {
        self.length += chunk.len() + CHUNK_OVERHEAD;
        match &self.draft {
            Some(draft) => match draft.upgrade() {
                Some(draft) => draft.push(chunk.clone()),
                None => return false,
            },
            None => {
                self.chunks.push(chunk.clone());
                if self.length > SMALL_BODY {
                    let chunks = std::mem::take(&mut self.chunks);
                    self.draft = self.memo.drafts.begin(self.question.key, self.question.until, chunks);
                    return self.draft.is_some();
                }
            }
        }
        self.length <= MAX_BODY
    }

    /// The client has the whole body.
    pub fn complete(mut self) {
        let chunks = match &self.draft {
            None => std::mem::take(&mut self.chunks),
            Some(draft) => match self.memo.drafts.end(draft) {
                Some(chunks) => chunks,
                None => return,
            },
        };
        let mut pieces = join(chunks);
        let body = match pieces.as_mut_slice() {
            [] => Content::Whole(Bytes::new()),
            [whole] => Content::Whole(std::mem::take(whole)),
            pieces => {
                let length = pieces.iter().map(|piece| piece.len() as u64).sum();
                Content::Pieces((&*pieces).into(), length)
            }
        };
        self.remember(body);
    }

    pub(super) fn remember(self, body: Content) {
        let Question { key, commit, until, ref testimony } = self.question;
        self.memo.counters.remembered.fetch_add(1, Ordering::Relaxed);
        let answer = Arc::new(Answer {
            commit,
            reads: testimony.places(),
            testimony: testimony.clone(),
            until,
            status: self.status,
            headers: self.headers.clone(),
            body,
        });
        let shelf = if answer.bytes() > SMALL_BODY + OVERHEAD { &self.memo.large } else { &self.memo.small };
        shelf.put(key, answer);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            self.memo.drafts.end(draft);
        }
    }
}

/// Joins small neighbours, so that an answer is a few pieces however its guest wrote it. Large
/// pieces are kept as they are, without a copy.
fn join(chunks: Vec<Bytes>) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    let mut rest = chunks.as_slice();
    while !rest.is_empty() {
        let mut length = 0;
        let run = rest.iter().take_while(|chunk| {
            length += chunk.len();
            length <= SMALL_BODY
        });
        let (run, others) = rest.split_at(run.count().max(1).min(rest.len()));
        pieces.push(match run {
            [alone] => alone.clone(),
            run => run.concat().into(),
        });
        rest = others;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_neighbours_are_joined_and_large_pieces_are_not_copied() {
        let large = Bytes::from(vec![1; SMALL_BODY + 1]);
        let small = |byte: u8, length: usize| Bytes::from(vec![byte; length]);
        let chunks = vec![small(2, 3), small(3, 4), large.clone(), small(4, SMALL_BODY), small(5, 1)];
        let pieces = join(chunks.clone());
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [7, SMALL_BODY + 1, SMALL_BODY, 1]);
        assert_eq!(pieces[1].as_ptr(), large.as_ptr());
        assert_eq!(pieces.concat(), chunks.concat());
        assert!(join(Vec::new()).is_empty());
    }
}
