//! `hexad token`, and the tokens of this program.

use std::io::Write;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use hexad::cli::{SecretValues, printable};
use hexad::random;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::list::{self, Column, Output};
use crate::records;
use crate::server::Server;

/// The environment variable with a token that the server accepts before any record exists.
pub const BOOTSTRAP_TOKEN: &str = "SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN";

/// Random bytes of a token.
const TOKEN_BYTES: usize = 16;

/// The scopes that the server knows. A contract test compares them with its own.
const SCOPES: [&str; 16] = [
    "api",
    "read_api",
    "read_user",
    "create_runner",
    "manage_runner",
    "k8s_proxy",
    "self_rotate",
    "read_repository",
    "write_repository",
    "read_registry",
    "write_registry",
    "read_virtual_registry",
    "write_virtual_registry",
    "read_service_ping",
    "sudo",
    "admin_mode",
];

/// The columns of a list of tokens.
const COLUMNS: [Column; 7] =
    [("id", 8), ("user_id", 8), ("active", 6), ("expires_at", 10), ("last_used_at", 24), ("scopes", 16), ("name", 0)];

/// A random token in the form of a personal access token.
pub fn random() -> Result<String> {
    let token = random::token(TOKEN_BYTES).context("the system has no randomness")?;
    Ok(format!("glpat-{token}"))
}

/// The bootstrap token in `secrets`, or a random one that only this process knows.
pub fn bootstrap(secrets: &SecretValues) -> Result<String> {
    secrets.get(BOOTSTRAP_TOKEN).filter(|token| !token.is_empty()).map_or_else(random, Ok)
}

/// Make, list and revoke tokens.
#[derive(Args)]
pub struct Token {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Create(Create),
    List(List),
    Revoke(Revoke),
}

/// List personal tokens of all users. Their texts are not stored, and cannot be shown.
#[derive(Args)]
struct List {
    /// Only those of this user, by name or id.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    server: Server,
}

/// Revoke a personal token: the server refuses it from then on.
#[derive(Args)]
struct Revoke {
    /// The id, as `hexad token list` shows it.
    #[arg(value_name = "ID")]
    id: u64,

    #[command(flatten)]
    server: Server,
}

/// Make a token for a user and print it; it is not shown again.
#[derive(Args)]
struct Create {
    /// The user, by name or id.
    #[arg(long, value_name = "NAME")]
    user: String,

    /// A scope of the token; can be repeated.
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = PossibleValuesParser::new(SCOPES))]
    scopes: Vec<String>,

    /// The name of the token.
    #[arg(long, value_name = "TEXT", default_value = "hexad")]
    name: String,

    /// The day on which it stops working, as YYYY-MM-DD [default: after the days in the setting
    /// `default_personal_access_token_lifetime`, 365 unless it is changed; 0 is never].
    #[arg(long, value_name = "DATE")]
    expires: Option<String>,

    #[command(flatten)]
    output: Output,

    #[command(flatten)]
    server: Server,
}

#[derive(Deserialize)]
struct Created {
    token: String,
    expires_at: Option<String>,
}

/// A token that the server has.
#[derive(Deserialize)]
struct Known {
    name: String,
    user_id: u64,
}

impl Token {
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Create(create) => create.run(),
            Command::List(List { user, output, server }) => {
                let user = user.map(|name| records::find_user(&server, &name)).transpose()?;
                let filter = user.map_or_else(String::new, |user| format!("?user_id={}", user.id));
                list::write(&server, &format!("personal_access_tokens{filter}"), &COLUMNS, &output)
            }
            Command::Revoke(Revoke { id, server }) => {
                let path = format!("personal_access_tokens/{id}");
                // A deletion of what is missing is no error.
                let Known { name, user_id } = serde_json::from_str(&server.get(&path)?)?;
                server.delete(&path)?;
                let name = printable(&name);
                Ok(writeln!(std::io::stdout(), "revoked the token {id} ({name}) of the user {user_id}")?)
            }
        }
    }
}

impl Create {
    fn run(self) -> Result<()> {
        let new_token = json!({
            "username": self.user,
            "scopes": self.scopes,
            "name": self.name,
            "expires_at": self.expires,
        });
        let answer: Value = self.server.post_json("personal_access_tokens", &new_token)?;
        let created: Created = Created::deserialize(&answer).context("the server's answer has no token")?;
        let end = created.expires_at.map_or("does not expire".to_owned(), |day| format!("expires on {day}"));
        // Standard output has only the token, for programs.
        let _ = writeln!(std::io::stderr(), "hexad: the token {end}");
        let text = if self.output.json { answer.to_string() } else { created.token };
        writeln!(std::io::stdout(), "{text}")
            .context("a token was made, but it cannot be written; revoke it and make another one")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        _token: Token,
    }

    #[test]
    fn the_error_of_an_unknown_scope_lists_all_scopes() {
        let arguments = ["hexad", "create", "--user", "mia", "--scope"];
        let parse = |scope| Program::try_parse_from(arguments.into_iter().chain([scope]));
        let error = parse("zzz").err().unwrap().to_string();
        assert!(error.contains("'zzz'") && SCOPES.iter().all(|scope| error.contains(scope)), "{error}");
        assert!(parse("read_api").is_ok());
    }

    #[test]
    fn random_tokens_look_like_personal_access_tokens() {
        let token = random().unwrap();
        assert!(token.starts_with("glpat-") && token.len() == 38, "{token}");
    }
}
