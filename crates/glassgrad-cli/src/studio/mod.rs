//! The server of the studio, on this machine. What it serves is the crate `glassgrad-studio`.
//!
//! - `server` listens, and gives every request a deadline; `connections` limits their number; `browser` opens the page;
//! - `security` authenticates clients and restricts the page;
//! - `requests` carries requests and answers, `stream` the updates of runs, `threads` runs them.

mod browser;
mod connections;
mod requests;
mod security;
mod server;
mod stream;
mod threads;

pub(crate) use server::{Settings, serve};
