//! Servers that must prove their names.

use hexad_testing::wait::wait_for_ok;
use rcgen::{BasicConstraints, CertificateParams, CertifiedKey, IsCa, KeyPair};

use super::*;
use crate::tls::Tls;
use crate::url::TlsMode;

type Issued = CertifiedKey<KeyPair>;

/// A server with TLS, to which a host connects by the name `localhost`.
struct Secret {
    server: Server,
    url: String,
    folder: tempfile::TempDir,
}

impl Secret {
    fn start() -> Option<Self> {
        let server = start(&[])?;
        let url = server.new_database("secret").replace("127.0.0.1", "localhost");
        Some(Self { server, url, folder: tempfile::tempdir().unwrap() })
    }

    fn install(&self, issued: &Issued) {
        self.server.write_secret("server.crt", &issued.cert.pem());
        self.server.write_secret("server.key", &issued.signing_key.serialize_pem());
        self.server.sql("alter system set ssl = on;");
        self.server.sql("select pg_reload_conf();");
    }

    fn ask(&self, authority: &Issued) -> Result<(), String> {
        let file = self.folder.path().join("authority.pem");
        std::fs::write(&file, authority.cert.pem()).unwrap();
        let url = format!("{}?sslmode=verify-full&sslrootcert={}", self.url, file.display());
        Host::try_open(&url, &Passwords::default()).map(drop).map_err(|error| error.to_string())
    }

    /// Tries until the answer is as expected: the server reads its files again a moment after its signal.
    #[track_caller]
    fn ask_until(&self, authority: &Issued, expected: impl Fn(&Result<(), String>) -> bool) {
        wait_for_ok(SOON, "the expected answer", || {
            let answer = self.ask(authority);
            if expected(&answer) { Ok(()) } else { Err(format!("{answer:?}")) }
        });
    }
}

fn is_refused(answer: &Result<(), String>, reason: &str) -> bool {
    answer.as_ref().is_err_and(|error| error.contains("certificate is not accepted") && error.contains(reason))
}

#[test]
fn the_name_and_the_authority_of_a_server_are_checked() {
    let Some(secret) = Secret::start() else { return };
    let issue = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let (wrong, right) = (issue("db.example"), issue("localhost"));
    secret.install(&wrong);
    secret.ask_until(&wrong, |answer| is_refused(answer, "the name that the certificate has"));
    let answer = secret.ask(&right);
    assert!(is_refused(&answer, "sslrootcert"), "{answer:?}");
    secret.install(&right);
    secret.ask_until(&right, Result::is_ok);
}

/// A certificate of `openssl req -x509`, which PostgreSQL's manual advises.
#[test]
fn a_certificate_that_the_server_has_signed_as_an_authority_is_accepted_if_it_is_the_named_one() {
    let Some(secret) = Secret::start() else { return };
    let issue = |name: &str, last_year: i32| {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = rcgen::date_time_ymd(last_year, 1, 1);
        let signing_key = KeyPair::generate().unwrap();
        CertifiedKey { cert: params.self_signed(&signing_key).unwrap(), signing_key }
    };
    let (good, other) = (issue("localhost", 4000), issue("localhost", 4000));
    secret.install(&good);
    secret.ask_until(&good, Result::is_ok);
    let answer = secret.ask(&other);
    assert!(is_refused(&answer, "sslrootcert"), "{answer:?}");
    // The name and the period of validity count nevertheless.
    let elsewhere = issue("db.example", 4000);
    secret.install(&elsewhere);
    secret.ask_until(&elsewhere, |answer| is_refused(answer, "not valid for name"));
    let expired = issue("localhost", 2001);
    secret.install(&expired);
    secret.ask_until(&expired, |answer| is_refused(answer, "expired"));
}

#[test]
fn a_file_of_certificates_without_an_end_is_refused() {
    let mode = TlsMode::VerifyFull { authority: Some("/dev/zero".into()) };
    let error = Tls::new(&mode).err().map(|error| error.to_string()).unwrap();
    assert!(error.contains("/dev/zero cannot be used: it has more than"), "{error}");
}
