//! The host's own promises, kept to hostile and clumsy guests, clients and disks.

mod bodies;
mod crash;
mod faults;
mod fixture;
mod key_value;
mod loading;
mod serving;
