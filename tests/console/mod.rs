//! The pages in a real browser: what people do ends in the real areas, nothing that users wrote runs, and
//! nothing is loaded from elsewhere.

mod demo;
mod hostile;
mod journeys;
mod operator;
mod quality;
mod site;
