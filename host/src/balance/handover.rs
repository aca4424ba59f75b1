//! A connection between two requests, on its way to another shard.

use futures::future::BoxFuture;

/// Serves the rest of a connection, on the shard whose number it is given.
pub struct Handover(Box<dyn FnOnce(usize) -> BoxFuture<'static, ()> + Send>);

/// Gives a shard a connection. Returns it if the shard has stopped.
pub type HandoverQueue = Box<dyn Fn(Handover) -> Result<(), Handover> + Send + Sync>;

impl Handover {
    pub fn new(resume: impl FnOnce(usize) -> BoxFuture<'static, ()> + Send + 'static) -> Self {
        Self(Box::new(resume))
    }

    /// Goes on with the connection on the shard whose thread calls.
    pub async fn resume(self, shard: usize) {
        self.0(shard).await;
    }
}
