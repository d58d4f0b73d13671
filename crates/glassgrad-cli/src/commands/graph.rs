//! `glassgrad graph`: the computation as text, DOT, SVG or JSON.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use glassgrad::picture;
use glassgrad::scalar::Tape;
use glassgrad::trace::Trace;

use crate::failure::{Failure, print};
use crate::question::Question;

/// Draw the graph of an expression, with values, adjoints and local partial derivatives on it
#[derive(Args)]
pub(crate) struct Graph {
    #[command(flatten)]
    question: Question,

    /// Output format; by default from the extension of the file
    #[arg(long, value_enum)]
    format: Option<Format>,

    /// The result from which the adjoints are taken, counted from 1
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    output: usize,

    /// Write to a file instead of standard output
    #[arg(short = 'o', long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Text,
    Dot,
    Svg,
    Json,
}

impl Graph {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let problem = self.question.understand()?;
        let tape = Tape::new();
        let outputs = problem.record(&tape);
        let output = super::grad::chosen(&outputs, self.output)?;
        let trace = Trace::new(&tape);
        let drawn = match self.format()? {
            Format::Text => picture::text(&trace, output),
            Format::Dot => picture::dot(&trace, output),
            Format::Svg => {
                picture::svg(&trace, output, &format!("{}   at {}", problem.expression.source(), problem.point_text()))
                    .map_err(Failure::input)?
            }
            Format::Json => format!("{:#}\n", trace.to_json(Some(output))),
        };
        match &self.out {
            None => print(&drawn)?,
            Some(path) => std::fs::write(path, drawn)
                .map_err(|error| Failure::Input(format!("cannot write {}: {error}", path.display())))?,
        }
        problem.not_finite(&trace, output).map_or(Ok(()), Err)
    }

    /// The format that is named, or that of the extension of the file.
    fn format(&self) -> Result<Format, Failure> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        let Some(path) = &self.out else { return Ok(Format::Text) };
        match path.extension().map(|extension| extension.to_string_lossy()).as_deref() {
            None | Some("txt") => Ok(Format::Text),
            Some("dot" | "gv") => Ok(Format::Dot),
            Some("svg") => Ok(Format::Svg),
            Some("json") => Ok(Format::Json),
            Some(_) => Err(Failure::Input(format!(
                "--out {}: unsupported file type; a graph is written as .txt, .dot, .gv, .svg or .json, or in the format that \
                 --format names",
                path.display()
            ))),
        }
    }
}
