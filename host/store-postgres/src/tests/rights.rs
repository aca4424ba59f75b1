//! The rights that a role must have.

use super::*;

#[test]
fn a_role_with_the_schema_needs_no_right_to_make_one() {
    let Some(server) = start(&[]) else { return };
    server.sql("create role tenant login; create database rented;");
    server.sql_in("rented", "create schema hexad authorization tenant;");
    let url = server.url("tenant", "rented");
    drop(Host::open(&url));
    drop(Host::open(&url));
}
