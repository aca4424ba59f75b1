//! A package registry.

mod decoder;
mod document;
mod integrity;
mod json;
mod manifest;
mod name;
mod segment;
mod version;
