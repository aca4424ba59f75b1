//! The URL of a store: which servers, as which user, with which TLS. It never has a password.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::open_error::PostgresOpenError;
use super::password::Passwords;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the server's machine may leave sent data without an acknowledgement.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of each session. They disable the server's time limits: if a limit ends a statement during its wait for
/// a standby, the server commits the statement nevertheless. The host also keeps idle connections. The server makes
/// plans once, and reads the table of changes through its index even if the table was small at that time.
const SESSION: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off \
                       -c default_transaction_isolation=read\\ committed -c idle_in_transaction_session_timeout=60s \
                       -c statement_timeout=0 -c lock_timeout=0 -c idle_session_timeout=0";

/// The servers of a store, in the order of the URL.
#[derive(Clone, Debug)]
pub struct StoreUrl {
    pub servers: Vec<Server>,
    pub tls: TlsMode,
    /// For people; without options.
    pub name: String,
}

/// One server. Its `Config` prints no password.
#[derive(Clone, Debug)]
pub struct Server {
    pub name: String,
    pub config: Config,
}

/// Whether connections over TCP are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsMode {
    Disabled,
    /// The certificate must be valid for the host's name. It must come from a known authority: the system's, or the one
    /// in the file.
    VerifyFull {
        authority: Option<PathBuf>,
    },
}

impl StoreUrl {
    /// Reads a URL as libpq does: `postgres://user@host:port,host:port/database?option=value`. Looks up the password of
    /// each server.
    pub fn parse(url: &str, passwords: &Passwords) -> Result<Self, PostgresOpenError> {
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(PostgresOpenError::Url("it does not begin with postgres://".to_owned()));
        }
        let (rest, tls) = split_tls_options(url)?;
        let config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            // The error names the option, but not its value.
            let source = std::error::Error::source(&error).map(ToString::to_string);
            PostgresOpenError::Url(source.unwrap_or_else(|| error.to_string()))
        })?;
        if config.get_password().is_some() {
            return Err(PostgresOpenError::PasswordInUrl);
        }
        if config.get_target_session_attrs() == TargetSessionAttrs::ReadOnly {
            return Err(PostgresOpenError::Url(
                "a host writes, and target_session_attrs=read-only is for one that reads".to_owned(),
            ));
        }
        let missing = |part: &str| PostgresOpenError::Url(format!("it names no {part}"));
        let database = config.get_dbname().ok_or_else(|| missing("database"))?;
        let user = config.get_user().ok_or_else(|| missing("user"))?;
        if config.get_hosts().is_empty() {
            return Err(missing("host"));
        }
        let is_local = config.get_hosts().iter().all(is_local);
        let tls = tls.unwrap_or(match is_local {
            true => TlsMode::Disabled,
            false => TlsMode::VerifyFull { authority: None },
        });
        let mut servers = Vec::new();
        for (index, host) in config.get_hosts().iter().enumerate() {
            let ports = config.get_ports();
            let port = ports.get(index).or_else(|| ports.first()).copied().unwrap_or(5432);
            let mut server = Config::new();
            let host = match host {
                Host::Tcp(name) => {
                    server.host(name).ssl_mode(match tls {
                        TlsMode::Disabled => SslMode::Disable,
                        TlsMode::VerifyFull { .. } => SslMode::Require,
                    });
                    name.clone()
                }
                Host::Unix(folder) => {
                    server.host_path(folder).ssl_mode(SslMode::Disable);
                    folder.display().to_string()
                }
            };
            server.port(port).user(user).dbname(database).application_name("hexad");
            server.target_session_attrs(TargetSessionAttrs::Any).options(match config.get_options() {
                Some(options) => format!("{SESSION} {options}"),
                None => SESSION.to_owned(),
            });
            server.connect_timeout(config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT));
            server.tcp_user_timeout(TCP_USER_TIMEOUT).keepalives(true).keepalives_idle(TCP_USER_TIMEOUT);
            if let Some(password) = passwords.find(&host, port, database, user) {
                server.password(password);
            }
            servers.push(Server { name: format!("{host}:{port}"), config: server });
        }
        let names: Vec<&str> = servers.iter().map(|server| &*server.name).collect();
        let name = format!("postgres://{user}@{}/{database}", names.join(","));
        Ok(Self { servers, tls, name })
    }
}

/// Takes `sslmode` and `sslrootcert` out of a URL: they have more values here than in the library.
fn split_tls_options(url: &str) -> Result<(String, Option<TlsMode>), PostgresOpenError> {
    let Some((base, query)) = url.split_once('?') else { return Ok((url.to_owned(), None)) };
    let (mut mode, mut authority, mut others) = (None, None, Vec::new());
    for (option, text) in query.split('&').zip(url::form_urlencoded::parse(query.as_bytes())) {
        match &*text.0 {
            "sslmode" => mode = Some(text.1.into_owned()),
            "sslrootcert" => authority = Some(PathBuf::from(&*text.1)),
            _ => others.push(option),
        }
    }
    let rest = if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
    let tls = match mode.as_deref() {
        None => authority.map(|authority| TlsMode::VerifyFull { authority: Some(authority) }),
        Some("disable") => Some(TlsMode::Disabled),
        Some("verify-full") => Some(TlsMode::VerifyFull { authority }),
        Some(mode @ ("allow" | "prefer" | "require" | "verify-ca")) => {
            return Err(PostgresOpenError::UncheckedTls(mode.to_owned()));
        }
        Some(_) => return Err(PostgresOpenError::Url("sslmode is disable or verify-full".to_owned())),
    };
    Ok((rest, tls))
}

/// Whether the server is on this machine, so that no machine between can listen.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(folder) => folder.as_path() != Path::new(""),
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<StoreUrl, PostgresOpenError> {
        StoreUrl::parse(url, &Passwords::default())
    }

    #[test]
    fn a_password_in_the_url_is_refused_and_not_repeated() {
        for url in ["postgres://me:secret@db/forge", "postgres://me@db/forge?password=secret"] {
            let error = parse(url).unwrap_err();
            assert!(matches!(error, PostgresOpenError::PasswordInUrl), "{error}");
            assert!(error.to_string().contains("PGPASSFILE") && !error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_wrong_url_is_refused_with_a_sentence() {
        for (url, part) in [
            ("mysql://db/forge", "postgres://"),
            ("postgres://db/forge", "no user"),
            ("postgres://me@db", "no database"),
            ("postgres://me@db:x/forge", "port"),
            ("postgres://me@db/forge?sslmode=maybe", "verify-full"),
            ("postgres://me@db/forge?sslmode=require", "verify-full"),
            ("postgres://me@db/forge?colour=red", "colour"),
            ("postgres://me@db/forge?target_session_attrs=read-only", "read-only"),
        ] {
            let text = parse(url).unwrap_err().to_string();
            assert!(text.contains(part), "{url}: {text}");
        }
    }

    #[test]
    fn servers_on_other_machines_must_prove_their_names() {
        assert_eq!(parse("postgres://me@127.0.0.1/forge").unwrap().tls, TlsMode::Disabled);
        assert_eq!(parse("postgres://me@%2Frun%2Fpostgresql/forge").unwrap().tls, TlsMode::Disabled);
        let remote = parse("postgres://me@db1:5433,db2:5434/forge?target_session_attrs=read-write").unwrap();
        assert_eq!(remote.tls, TlsMode::VerifyFull { authority: None });
        assert_eq!(remote.name, "postgres://me@db1:5433,db2:5434/forge");
        assert!(remote.servers.iter().all(|server| server.config.get_ssl_mode() == SslMode::Require));
        let own = parse("postgres://me@db/forge?sslrootcert=%2Fetc%2Fca.pem&sslmode=verify-full").unwrap();
        assert_eq!(own.tls, TlsMode::VerifyFull { authority: Some(PathBuf::from("/etc/ca.pem")) });
    }
}
