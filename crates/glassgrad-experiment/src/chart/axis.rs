//! Axes: from numbers to places, with round numbers beside them.

/// An axis with a name, from one end to the other.
#[derive(Clone, Debug)]
pub struct Axis {
    pub name: String,
    low: f64,
    high: f64,
    is_logarithmic: bool,
    ticks: Vec<(f64, String)>,
}

/// Numbers whose ends are further apart than this factor are shown on a logarithmic axis.
const FAR_APART: f64 = 30.0;

/// The approximate number of tick labels of an axis.
const TICKS: f64 = 5.0;

/// Numbers larger than this are drawn as if they were this large, so that differences are still numbers.
const LARGEST: f64 = 1e300;

impl Axis {
    /// An axis for some numbers, logarithmic if they are positive and far apart.
    pub fn fitting(name: &str, numbers: impl Iterator<Item = f64> + Clone) -> Axis {
        match ends(numbers.clone()) {
            Some((low, high)) if low > 0.0 && high / low > FAR_APART => Axis::logarithmic(name, numbers),
            _ => Axis::linear(name, numbers),
        }
    }

    /// An axis with equal steps, a little longer than the numbers need.
    pub fn linear(name: &str, numbers: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = widened(ends(numbers).unwrap_or((0.0, 1.0)));
        let margin = 0.04 * (high - low);
        Axis::between(name, low - margin, high + margin)
    }

    /// A linear axis between given ends.
    pub fn between(name: &str, low: f64, high: f64) -> Axis {
        let (low, high) = widened((low, high));
        let step = round_step((high - low) / TICKS);
        // Decimals of the step, not of its multiples, which carry rounding errors.
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize + usize::from(step_has_quarter(step));
        let first = (low / step).ceil();
        let count = ((high / step).floor() - first).clamp(0.0, 20.0) as usize + 1;
        let ticks = (0..count)
            .map(|k| (first + k as f64) * step)
            .filter(|tick| (low..=high).contains(tick))
            .map(|tick| {
                let is_plain = tick == 0.0 || (1e-4..1e6).contains(&low.abs().max(high.abs()));
                (tick, if is_plain { plain(tick, decimals) } else { number(tick) })
            })
            .collect();
        Axis { name: name.to_owned(), low, high, is_logarithmic: false, ticks }
    }

    /// An axis for counts, as epochs are: its numbers are whole.
    pub fn counted(name: &str, numbers: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = ends(numbers).unwrap_or((0.0, 1.0));
        let (low, high) = if low == high { (low - 0.5, high + 0.5) } else { (low, high) };
        let mut axis = Axis::between(name, low, high);
        let step = round_step((high - low) / TICKS).max(1.0).round();
        let first = (low / step).ceil();
        let ticks = (0..=20).map(|k| (first + f64::from(k)) * step).take_while(|tick| *tick <= high);
        axis.ticks = ticks.map(|tick| (tick, plain(tick, 0))).collect();
        axis
    }

    /// An axis with equal factors; what is not positive has no place on it.
    pub fn logarithmic(name: &str, numbers: impl Iterator<Item = f64>) -> Axis {
        let (low, high) = ends(numbers.filter(|number| *number > 0.0)).unwrap_or((0.1, 1.0));
        let (low, high) = if high / low < 2.0 { (low / 1.5, high * 1.5) } else { (low, high) };
        let margin = 10_f64.powf(0.04 * (high.log10() - low.log10()));
        let (low, high) = ((low / margin).max(f64::from_bits(1)), (high * margin).min(LARGEST));
        let decades = high.log10() - low.log10();
        let every = (decades / TICKS).ceil().max(1.0) as i32;
        let digits: &[f64] = match decades {
            decades if decades < 1.2 => &[1.0, 2.0, 3.0, 5.0, 7.0],
            decades if decades < 2.5 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let exponents = (low.log10().floor() as i32..=high.log10().ceil() as i32).filter(|k| k.rem_euclid(every) == 0);
        let mut ticks: Vec<f64> = exponents
            .flat_map(|exponent| digits.iter().map(move |digit| digit * 10_f64.powi(exponent)))
            .filter(|tick| (low..=high).contains(tick))
            .collect();
        // Within a small factor the round numbers are those of equal steps.
        if ticks.len() < 3 {
            let step = round_step((high - low) / TICKS);
            let first = (low / step).ceil();
            ticks = (0..=10).map(|k| (first + f64::from(k)) * step).take_while(|tick| *tick <= high).collect();
        }
        let ticks = ticks.into_iter().map(|tick| (tick, number(tick))).collect();
        Axis { name: name.to_owned(), low, high, is_logarithmic: true, ticks }
    }

    /// The same axis with other words beside its numbers.
    pub fn labelled(mut self, label: impl Fn(f64) -> String) -> Axis {
        for (tick, text) in &mut self.ticks {
            *text = label(*tick);
        }
        self
    }

    pub fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Whether equal distances are equal factors.
    pub fn is_logarithmic(&self) -> bool {
        self.is_logarithmic
    }

    pub fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    /// The place of a number as a part of the axis, if it has one.
    pub fn place(&self, number: f64) -> Option<f64> {
        let place = match self.is_logarithmic {
            true => (number.log10() - self.low.log10()) / (self.high.log10() - self.low.log10()),
            false => (number.clamp(-LARGEST, LARGEST) - self.low) / (self.high - self.low),
        };
        (number.is_finite() && place.is_finite()).then_some(place)
    }
}

/// The smallest and the largest number that is finite.
fn ends(numbers: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = numbers.filter(|number| number.is_finite()).map(|number| number.clamp(-LARGEST, LARGEST));
    finite.fold(None, |ends, number| match ends {
        None => Some((number, number)),
        Some((low, high)) => Some((low.min(number), high.max(number))),
    })
}

/// Ends that are apart.
fn widened((low, high): (f64, f64)) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    match high - low > 1e-9 * size {
        true => (low, high),
        false if size == 0.0 => (-1.0, 1.0),
        false => (low - 0.1 * size, high + 0.1 * size),
    }
}

/// The next larger of 1, 2, 2.5 and 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0].into_iter().find(|step| step * power >= least * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

fn step_has_quarter(step: f64) -> bool {
    let digit = step / 10_f64.powf(step.log10().floor());
    (digit - 2.5).abs() < 1e-6
}

/// A number with at most this many decimals, without trailing zeros.
fn plain(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.replace('-', "−") }
}

/// A number in few characters, with four digits that count.
pub fn number(number: f64) -> String {
    let size = number.abs();
    match size {
        _ if number.is_nan() => "not a number".to_owned(),
        _ if size.is_infinite() => if number > 0.0 { "∞" } else { "−∞" }.to_owned(),
        0.0 => "0".to_owned(),
        size if (1e-3..1e6).contains(&size) => plain(number, (3.0 - size.log10().floor()).max(0.0) as usize),
        size => {
            let mut exponent = size.log10().floor() as i32;
            let mut digits = number / 10_f64.powi(exponent);
            // The smallest numbers have no power of ten to be divided by.
            if !digits.is_finite() {
                digits = number * 1e300 / 10_f64.powi(exponent + 300);
            }
            let mut text = plain(digits, 2);
            if text.trim_start_matches('−') == "10" {
                (text, exponent) = (text.replace("10", "1"), exponent + 1);
            }
            let raised = raised(exponent);
            match &*text {
                "1" => format!("10{raised}"),
                "−1" => format!("−10{raised}"),
                text => format!("{text}·10{raised}"),
            }
        }
    }
}

/// An exponent in raised digits.
fn raised(exponent: i32) -> String {
    let raised = |character: char| match character {
        '-' => '⁻',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        digit => digit.to_digit(10).and_then(|digit| char::from_u32(0x2070 + digit)).unwrap_or(digit),
    };
    exponent.to_string().chars().map(raised).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks().iter().map(|(_, label)| &**label).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(labels(&Axis::between("", 0.0, 1.0)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(&Axis::between("", -1.3, 1.1)), ["−1", "−0.5", "0", "0.5", "1"]);
        assert_eq!(labels(&Axis::between("", 0.0, 0.12)), ["0", "0.025", "0.05", "0.075", "0.1"]);
        assert_eq!(labels(&Axis::counted("", [1.0, 30.0].into_iter())), ["10", "20", "30"]);
        assert_eq!(labels(&Axis::counted("", [1.0, 2.0].into_iter())), ["1", "2"]);
        assert_eq!(labels(&Axis::counted("", [1.0].into_iter())), ["1"]);
        assert_eq!(labels(&Axis::logarithmic("", [1e-4, 1.0].into_iter())), ["10⁻⁴", "0.001", "0.01", "0.1", "1"]);
        assert_eq!(labels(&Axis::logarithmic("", [2.0, 30.0].into_iter())), ["2", "5", "10", "20"]);
        assert_eq!(labels(&Axis::logarithmic("", [1.7, 1.8].into_iter())), ["1.5", "2", "2.5"]);
    }

    #[test]
    fn far_apart_numbers_ask_for_a_logarithm() {
        assert!(Axis::fitting("", [0.01, 1.0].into_iter()).is_logarithmic());
        assert!(!Axis::fitting("", [0.5, 1.0].into_iter()).is_logarithmic());
        assert!(!Axis::fitting("", [0.0, 1.0].into_iter()).is_logarithmic());
    }

    #[test]
    fn any_numbers_make_an_axis() {
        let lists: [&[f64]; 8] = [
            &[],
            &[f64::NAN],
            &[f64::INFINITY, f64::NEG_INFINITY],
            &[0.0],
            &[3.0, 3.0],
            &[f64::MAX, f64::MIN],
            &[5e-324, 1.0],
            &[1e300, 1e-300],
        ];
        for list in lists {
            let numbers = || list.iter().copied();
            for axis in [Axis::fitting("", numbers()), Axis::linear("", numbers()), Axis::counted("", numbers())] {
                let (low, high) = axis.ends();
                assert!(low < high && (high - low).is_finite(), "{list:?}: {axis:?}");
                assert!(axis.ticks().len() <= 25, "{list:?}: {axis:?}");
                for value in list.iter().filter(|value| value.is_finite()) {
                    let place = axis.place(*value);
                    assert!(
                        place.is_none_or(|place| (-0.01..=1.01).contains(&place)),
                        "{value} in {axis:?}: {place:?}"
                    );
                }
                assert_eq!(axis.place(f64::NAN), None);
            }
        }
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 1.0, -0.25, 1234.5678, 1e-5, -2.5e-7, 1e12, 5e-324, 9.999e-6, f64::INFINITY].map(number);
        assert_eq!(shown, ["0", "1", "−0.25", "1235", "10⁻⁵", "−2.5·10⁻⁷", "10¹²", "4.94·10⁻³²⁴", "10⁻⁵", "∞"]);
    }
}
