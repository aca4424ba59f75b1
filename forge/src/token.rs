//! `hexad token`: makes tokens.

use std::io::Write;

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::json;
use ureq::SendBody;

use super::Failure;
use super::server::Server;

/// Make tokens.
#[derive(Args)]
pub struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Create(Create),
}

/// Make a token for a user and print it; it is not shown again.
#[derive(Args)]
struct Create {
    /// The user, by name or id.
    #[arg(long, value_name = "NAME")]
    user: String,

    /// What the token is good for, for example `api` or `read_api`; can be repeated.
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    scopes: Vec<String>,

    /// What the token is called.
    #[arg(long, value_name = "TEXT", default_value = "hexad")]
    name: String,

    /// The day on which it stops working, as YYYY-MM-DD; never, if it is not given.
    #[arg(long, value_name = "DATE")]
    expires: Option<String>,

    #[command(flatten)]
    server: Server,
}

#[derive(Deserialize)]
struct Created {
    token: String,
}

impl Token {
    pub fn run(self) -> Result<(), Failure> {
        let Command::Create(create) = self.command;
        let wanted = json!({
            "username": create.user,
            "scopes": create.scopes,
            "name": create.name,
            "expires_at": create.expires,
        });
        let wanted = wanted.to_string();
        let mut body = wanted.as_bytes();
        let created: Created =
            create.server.post("personal_access_tokens", "application/json", SendBody::from_reader(&mut body))?;
        writeln!(std::io::stdout(), "{}", created.token)?;
        Ok(())
    }
}
