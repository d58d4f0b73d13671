//! Text: a sample of the network, and the n-gram baseline.

use glassgrad::error::Error;

use crate::objective::Measure;
use crate::report::Subject;
use crate::report::html::{escaped, note};
use crate::samples::{Sample, TEMPERATURE};

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let Some(Sample { begin, written, counted }) = subject.outcome.sample(subject.study)? else { return Ok(None) };
    let reached = match subject.outcome.test.measure {
        Measure::Bits(bits) => format!("{bits:.3} bits"),
        other => other.to_string(),
    };
    let about = format!(
        "Text generation: after the first characters of the held-out text, each character is sampled from the \
         predicted probabilities, at the temperature {TEMPERATURE}. It needs {reached} for a character; counting sequences of up to {} \
         characters needs {:.3}.",
        counted.order, counted.bits
    );
    Ok(Some(format!("{}<pre id=\"sample\"><b>{}</b>{}</pre>", note(&about), escaped(begin), escaped(written))))
}
