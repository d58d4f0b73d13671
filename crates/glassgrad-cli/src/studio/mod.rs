//! The studio: a server on this machine, and the page that it serves.
//!
//! - `server` listens, and gives every request a limit in time and company;
//! - `security` says who may ask, and what the page may do;
//! - `api/` answers questions about expressions, with what the library says;
//! - `views/` are what can be watched while a network learns, `written` is how their numbers are written;
//! - `inside/` answers what is asked about a network and the step that changes it;
//! - `gallery` holds examples, `assets` the files of the page, which lie in the folder `studio/` of this package.
//!
//! The page computes no derivative and no value: it draws what it is told here.

mod api;
mod assets;
mod gallery;
#[allow(dead_code, reason = "the runner of experiments is the one that asks")]
mod inside;
mod security;
mod server;
#[allow(dead_code, reason = "the runner of experiments is the one that asks")]
mod views;
mod written;

pub(crate) use server::{Settings, serve};
