//! The studio: a server on this machine, and the page that it serves.
//!
//! - `server` listens, and gives every request a deadline; `connections` limits their number; `browser`
//!   opens the page;
//! - `security` says who may ask, and what the page may do;
//! - `api/` answers questions about expressions, with what the library says;
//! - `train/` lets networks learn, `views/` says what is seen of them meanwhile, `inside/` what is asked about them, and
//!   `written` how their numbers are written;
//! - `gallery` holds examples, `glossary` the terms of the documentation, `assets` the files of the page, which lie in the folder `studio/` of this package.
//!
//! The page computes no derivative and no value: it only draws responses.

mod api;
mod assets;
mod browser;
mod connections;
mod encode;
mod gallery;
mod glossary;
mod inside;
mod security;
mod server;
mod train;
mod views;

pub(crate) use server::{Settings, serve};
