//! A text: what the network writes by itself, and what counting letters would have reached.

use glassgrad::error::Error;

use crate::lab::objective::Measure;
use crate::lab::verse::{TEMPERATURE, Verse};
use crate::report::Subject;
use crate::report::html::{escaped, note};

pub(super) fn part(subject: &Subject<'_>) -> Result<Option<String>, Error> {
    let Some(Verse { begin, written, counted }) = subject.outcome.verse(subject.study)? else { return Ok(None) };
    let reached = match subject.outcome.test.measure {
        Measure::Bits(bits) => format!("{bits:.3} bits"),
        other => other.to_string(),
    };
    let about = format!(
        "After the first characters of the text that was held out, the network goes on by itself, each character drawn by the \
         probabilities that it tells, at the temperature {TEMPERATURE}. It needs {reached} for a character; counting sequences of up to {} \
         characters needs {:.3}.",
        counted.order, counted.bits
    );
    Ok(Some(format!("{}<pre id=\"verse\"><b>{}</b>{}</pre>", note(&about), escaped(begin), escaped(written))))
}
