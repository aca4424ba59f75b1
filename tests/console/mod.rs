//! The pages in a real browser: users' actions reach the real areas, no text of a user runs as code, and nothing is
//! loaded from elsewhere.

mod demo;
mod hostile;
mod journeys;
mod operator;
mod quality;
mod site;
