//! Why a store on PostgreSQL cannot be opened. Each text says what to do.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;

use hexad_store::lock::LockError;
use tokio_postgres::error::SqlState;

#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    #[error("the URL of the store cannot be used: {0}; write --store postgres://USER@HOST:PORT/DATABASE")]
    Url(String),
    #[error(
        "the URL of the store has a password, which other users of this machine could read; put it into the file \
         that PGPASSFILE names (or ~/.pgpass), or into the variable PGPASSWORD"
    )]
    PasswordInUrl,
    #[error(
        "sslmode={0} does not check who answers; write sslmode=verify-full (and sslrootcert=FILE for an authority of \
         your own), or sslmode=disable in a network that you trust"
    )]
    UncheckedTls(String),
    #[error("the password file {path} cannot be used: {reason}")]
    PasswordFile { path: PathBuf, reason: String },
    #[error("TLS to PostgreSQL cannot be set up: {0}")]
    Tls(String),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("cannot start a thread for the store: {0}")]
    Thread(io::Error),
    #[error("no PostgreSQL of the store can be used: {reasons}")]
    NoServer {
        /// Each server with its reason.
        reasons: String,
        /// Whether the store itself is the cause, so that the host need not wait for a server.
        is_of_store: bool,
    },
    #[error("it is a standby; name the primary, or all servers: postgres://USER@db1,db2/DATABASE")]
    Standby,
    #[error("it takes no writes (default_transaction_read_only is on); turn that off, or name another server")]
    ReadOnly,
    #[error("it is PostgreSQL {version}, and 14 is the oldest that can be used; upgrade it")]
    TooOld { version: String },
    #[error("the database has the encoding {encoding}; make one with `createdb --encoding=UTF8 --template=template0`")]
    Encoding { encoding: String },
    #[error(
        "the user lacks rights ({reason}); make it the owner: `alter database … owner to …`, or of the schema hexad"
    )]
    NoRights { reason: String },
    #[error(
        "its tables have format {found}, and this hexad reads up to {reads}; use the hexad that wrote them, or a newer one"
    )]
    NewerFormat { found: i32, reads: i32 },
    #[error("a copy into it was not completed; remove it with `drop schema hexad cascade`, and copy again")]
    Unfinished,
    #[error("its table hexad.format has no row, so that nobody knows what the others hold; restore the database")]
    NoFormat,
    #[error("its table hexad.{0} has no row, or none that this hexad can read; restore the database")]
    NoRow(&'static str),
    #[error("there is no store in it; name the database of a host")]
    NoStore,
    #[error(
        "there is no store in it, and none is made while another server that may have one cannot be used; start that \
         one, or leave it out of the URL of the store"
    )]
    NoStoreHere,
    #[error("the tables of the store are gone; restore the database, and the host goes on by itself")]
    TablesGone,
    #[error(
        "this is another store than before; restore the one before, and the host goes on by itself, or restart the \
         host if this one is meant"
    )]
    OtherStore,
    #[error(
        "its connections were not ready after {0} seconds; if it responds, see in pg_stat_activity which session keeps \
         a table of the schema hexad locked"
    )]
    Slow(u64),
    #[error(
        "the password is missing or wrong for this user; correct the line in the file that PGPASSFILE names, or PGPASSWORD"
    )]
    Password,
    #[error("{0}; correct the user or the database in the URL of the store, or make it")]
    Unknown(String),
    #[error("{0}; ask for fewer with --store-connections, or raise max_connections")]
    TooManyConnections(String),
    #[error("it has no TLS; set `ssl = on` there, or write sslmode=disable in a network that you trust")]
    NoTls,
    #[error(
        "its certificate is not accepted: {0}; write the name that the certificate has, or its authority with sslrootcert=FILE"
    )]
    Certificate(String),
    #[error("it cannot be reached: {0}; correct the host and the port in the URL of the store, or start it")]
    Unreachable(String),
    #[error("its connections reach different servers; name each server instead of a balancer of connections")]
    SeveralServers,
    #[error("{}", describe(.0))]
    Server(tokio_postgres::Error),
}

impl PostgresOpenError {
    /// Why no server is usable, by the servers' names.
    pub fn of_servers<'a>(refusals: impl Iterator<Item = (&'a str, &'a Self)> + Clone) -> Self {
        let is_of_store = refusals.clone().any(|(_, error)| error.is_of_store())
            && refusals.clone().all(|(_, error)| error.is_of_store() || error.is_of_follower());
        let reasons: Vec<String> = refusals.map(|(server, error)| format!("{server}: {error}")).collect();
        Self::NoServer { reasons: reasons.join("; "), is_of_store }
    }

    /// Whether the server responds and would take writes, but its store is unusable or refuses the host. An operator
    /// has to repair the store.
    pub fn is_of_store(&self) -> bool {
        match self {
            Self::NoServer { is_of_store, .. } => *is_of_store,
            Self::Server(error) => error.code().is_some_and(is_of_tables),
            Self::NoRights { .. }
            | Self::NewerFormat { .. }
            | Self::Unfinished
            | Self::NoFormat
            | Self::NoRow(_)
            | Self::NoStore
            | Self::NoStoreHere
            | Self::TablesGone
            | Self::OtherStore
            | Self::Password
            | Self::Unknown(_) => true,
            _ => false,
        }
    }

    /// Whether the server responds, but cannot have a store of its own that takes writes.
    pub fn is_of_follower(&self) -> bool {
        matches!(self, Self::Standby | Self::ReadOnly)
    }
}

/// Whether the tables do not fit the statements, or the user may not use them. The statements are constant, so no
/// request can cause this.
pub fn is_of_tables(code: &SqlState) -> bool {
    /// A missing schema, and a single-row table with several rows.
    const OTHERS: [SqlState; 2] = [SqlState::INVALID_SCHEMA_NAME, SqlState::CARDINALITY_VIOLATION];
    // "Syntax error or access rule violation": a missing table, column or key, another type, a missing right.
    code.code().starts_with("42") || OTHERS.contains(code)
}

impl From<tokio_postgres::Error> for PostgresOpenError {
    fn from(error: tokio_postgres::Error) -> Self {
        let text = describe(&error);
        let Some(code) = error.code() else {
            let reason = text.to_lowercase();
            return match () {
                () if reason.contains("password missing") => Self::Password,
                () if reason.contains("does not support tls") => Self::NoTls,
                () if reason.contains("certificate") || reason.contains("tls") => Self::Certificate(text),
                () => Self::Unreachable(text),
            };
        };
        match *code {
            SqlState::INVALID_PASSWORD => Self::Password,
            SqlState::INVALID_AUTHORIZATION_SPECIFICATION | SqlState::INVALID_CATALOG_NAME => Self::Unknown(text),
            SqlState::TOO_MANY_CONNECTIONS => Self::TooManyConnections(text),
            _ => Self::Server(error),
        }
    }
}

/// The error with its cause, which the error's own text omits.
pub fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    match error.source() {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_in_the_way_only_if_no_server_has_to_be_waited_for() {
        let (empty, other) = (PostgresOpenError::TablesGone, PostgresOpenError::OtherStore);
        let (standby, away) = (PostgresOpenError::Standby, PostgresOpenError::Unreachable("refused".to_owned()));
        let is_of_store = |errors: &[&PostgresOpenError]| {
            let error = PostgresOpenError::of_servers(errors.iter().map(|error| ("db", *error)));
            assert!(error.to_string().ends_with(&errors[errors.len() - 1].to_string()), "{error}");
            error.is_of_store()
        };
        assert!(is_of_store(&[&empty]) && is_of_store(&[&empty, &other]) && is_of_store(&[&standby, &empty]));
        assert!(!is_of_store(&[&away]) && !is_of_store(&[&away, &empty]) && !is_of_store(&[&other, &away]));
        assert!(!is_of_store(&[&standby]), "one that may be promoted");
    }
}
