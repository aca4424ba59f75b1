//! Servers that must prove their names.

use super::*;

#[test]
fn the_name_and_the_authority_of_a_server_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let issue = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let (wrong, right) = (issue("db.example"), issue("localhost"));
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("secret");
    let install = |issued: &rcgen::CertifiedKey<rcgen::KeyPair>| {
        server.write_secret("server.crt", &issued.cert.pem());
        server.write_secret("server.key", &issued.signing_key.serialize_pem());
        server.sql("alter system set ssl = on;");
        server.sql("select pg_reload_conf();");
    };
    let ask = |authority: &rcgen::CertifiedKey<rcgen::KeyPair>| {
        let file = folder.path().join("authority.pem");
        std::fs::write(&file, authority.cert.pem()).unwrap();
        let url = url.replace("127.0.0.1", "localhost");
        let url = format!("{url}?sslmode=verify-full&sslrootcert={}", file.display());
        // The server reads its files again a moment after it was told to.
        let end = std::time::Instant::now() + Duration::from_secs(20);
        loop {
            match Host::try_open(&url, &Passwords::default()) {
                Err(error) if error.to_string().contains("does not support TLS") && std::time::Instant::now() < end => {
                }
                opened => return opened.map(drop).map_err(|error| error.to_string()),
            }
        }
    };
    install(&wrong);
    let error = ask(&wrong).unwrap_err();
    assert!(
        error.contains("certificate is not accepted") && error.contains("the name that the certificate has"),
        "{error}"
    );
    let error = ask(&right).unwrap_err();
    assert!(error.contains("sslrootcert"), "{error}");
    install(&right);
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while let Err(error) = ask(&right) {
        assert!(std::time::Instant::now() < end, "{error}");
    }
}
