//! Categorical palette for classes and curves, on light and dark backgrounds.

/// As many have a colour of their own that a page may change by its variables `--c0` to `--c7`.
pub const NAMED: usize = 8;

/// The colours of the variables, where a picture cannot ask for them.
const RGB: [[u8; 3]; NAMED] = [
    [43, 123, 186],
    [232, 118, 44],
    [42, 157, 106],
    [162, 91, 181],
    [176, 130, 0],
    [209, 73, 91],
    [27, 148, 166],
    [120, 120, 132],
];

/// The colour of a class or a curve, as a stylesheet writes it.
pub fn of(number: usize) -> String {
    match number {
        number if number < NAMED => format!("var(--c{number})"),
        number => {
            let [red, green, blue] = rgb(number);
            format!("#{red:02x}{green:02x}{blue:02x}")
        }
    }
}

/// The same colour as red, green and blue.
pub fn rgb(number: usize) -> [u8; 3] {
    if let Some(named) = RGB.get(number) {
        return *named;
    }
    // Further colours go around the circle by the golden part, which keeps neighbours apart however many there are.
    let turn = (number as f64 * 0.618_033_988_749_895).fract() * 6.0;
    let level = |shift: f64| {
        let away = ((turn + shift) % 6.0 - 3.0).abs() - 1.0;
        (60.0 + 140.0 * away.clamp(0.0, 1.0)).round() as u8
    };
    [level(0.0), level(4.0), level(2.0)]
}

/// A diverging colour map from −1 (blue) to 1 (orange): the colour, and its opacity.
pub fn diverging(part: f64) -> [u8; 4] {
    let [red, green, blue] = rgb(usize::from(part > 0.0));
    [red, green, blue, (255.0 * part.abs().min(1.0)).round() as u8]
}
