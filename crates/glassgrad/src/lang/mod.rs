//! Language.
