//! The book of Glassgrad: its chapters are in `book/`, and it shows pages of `docs/` as they are.
//!
//! `book/SUMMARY.md` is the table of contents, in the format of mdBook. A page is named by its path in the repository; what pages link to
//! and what is no chapter (decisions, examples, pictures) is added behind the chapters, so that no link leads out of the book but to the studio and
//! the web. Every Rust snippet of a chapter is a documentation test of this crate.
//!
//! - [`summary`]: the table of contents;
//! - [`markdown`]: one page, with its headings, links and figures;
//! - [`book`]: all pages, their names in the site, and what is wrong with their links.

pub mod book;
pub mod markdown;
pub mod summary;

/// Snippets of the chapters, which `cargo test --doc` runs.
#[cfg(doctest)]
mod snippets {
    macro_rules! chapters {
        ($($name:ident $path:literal)*) => {
            $(#[doc = include_str!(concat!("../../../book/", $path))] struct $name;)*
        };
    }

    chapters! {
        Derivative "derivative.md"
        ChainRule "chain-rule.md"
        ForwardMode "forward-mode.md"
        ReverseMode "reverse-mode.md"
        HigherOrders "higher-orders.md"
        Tensors "tensors.md"
        MatrixCalculus "matrix-calculus.md"
        Descent "descent.md"
        Neuron "neuron.md"
        Network "network.md"
        TrainingWell "training-well.md"
        Images "images.md"
        Sequences "sequences.md"
        Attention "attention.md"
        Transformer "transformer.md"
        Inspection "inspection.md"
        Installation "installation.md"
        Recipes "recipes.md"
    }
}
