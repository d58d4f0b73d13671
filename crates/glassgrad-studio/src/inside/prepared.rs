//! Preprocessing of drawings to match the training images.
//!
//! The images of MNIST are digits scaled to fit a square of 20 pixels with their proportions, with grey levels from what each pixel
//! is covered by, and put into a field of 28 by their centre of mass. The small digits of 8×8 pixels fill their field from the top
//! to the bottom, have their mass in the middle from left to right, and are cut into blocks of a black and white picture, whose ink
//! is counted. Large images are resampled in the first way and small ones in the second.

use glassgrad::error::Error;

use super::drawn::images;
use crate::experiment::study::Study;

/// Ink that counts as drawn, with grey levels and in black and white.
const FAINT: f64 = 0.1;
const BLACK: f64 = 0.5;
/// The part of a large field that a drawing fills.
const FILLED: f64 = 20.0 / 28.0;
/// Fields with shorter sides are small.
const LARGE: usize = 16;
/// The largest drawing along each side.
const LARGEST: usize = 4096;

/// A drawing of any size, ink from 0 to 1 row by row, preprocessed like the training images, for `drawn`.
pub(crate) fn prepared(study: &Study, pixels: &[f64], from: [usize; 2]) -> Result<Vec<f64>, Error> {
    let (size, _) = images(study)?;
    let [height, width] = from;
    if height.max(width) > LARGEST {
        return Err(Error::new("prepared", format!("a drawing has at most {LARGEST}×{LARGEST} pixels")));
    }
    if pixels.is_empty() || pixels.len() != height * width {
        let message = format!("a drawing of {height}×{width} has {} pixels, not {}", height * width, pixels.len());
        return Err(Error::new("prepared", message));
    }
    if let Some(place) = pixels.iter().position(|pixel| !(0.0..=1.0).contains(pixel)) {
        let message = format!("pixel {place} is {}; ink goes from 0 to 1", pixels[place]);
        return Err(Error::new("prepared", message));
    }
    Ok(Drawing { pixels: pixels.to_vec(), height, width }.like_images_of(size))
}

/// Ink in rows.
struct Drawing {
    pixels: Vec<f64>,
    height: usize,
    width: usize,
}

/// A rectangle: its upper and lower, left and right ends.
type Rectangle = [(f64, f64); 2];

impl Drawing {
    fn like_images_of(self, size: [usize; 2]) -> Vec<f64> {
        match size.into_iter().min() {
            Some(LARGE..) => self.fitted(size, FILLED, true),
            _ => self.black_and_white().fitted(size, 1.0, false),
        }
    }

    fn black_and_white(mut self) -> Drawing {
        self.pixels.iter_mut().for_each(|ink| *ink = f64::from(u8::from(*ink > BLACK)));
        self
    }

    /// The drawing in a part of a field: its mass is in the middle of the field, from the top to the bottom only if that is
    /// requested.
    fn fitted(&self, [rows, columns]: [usize; 2], part: f64, by_mass: bool) -> Vec<f64> {
        let Some([(top, bottom), (left, right)]) = self.drawn() else { return vec![0.0; rows * columns] };
        // Pixels of the drawing per output pixel, along both sides.
        let step = ((bottom - top) / (part * rows as f64)).max((right - left) / (part * columns as f64));
        let (mass, x) = self.centre_of_mass();
        let y = if by_mass { mass } else { 0.5 * (top + bottom) };
        let ends = |place: usize, count: usize, centre: f64| {
            let begin = centre + (place as f64 - 0.5 * count as f64) * step;
            (begin, begin + step)
        };
        let pixel = |place: usize| self.covered([ends(place / columns, rows, y), ends(place % columns, columns, x)]);
        (0..rows * columns).map(pixel).collect()
    }

    /// The smallest rectangle with all ink; none without ink.
    fn drawn(&self) -> Option<Rectangle> {
        let ends = |count: usize, has_ink: &dyn Fn(usize) -> bool| {
            let first = (0..count).find(|place| has_ink(*place))?;
            let last = (0..count).rev().find(|place| has_ink(*place))?;
            Some((first as f64, (last + 1) as f64))
        };
        let ink = |row: usize, column: usize| self.pixels[row * self.width + column] > FAINT;
        let rows = ends(self.height, &|row| (0..self.width).any(|column| ink(row, column)))?;
        let columns = ends(self.width, &|column| (0..self.height).any(|row| ink(row, column)))?;
        Some([rows, columns])
    }

    fn centre_of_mass(&self) -> (f64, f64) {
        let (mut sum, mut y, mut x) = (0.0, 0.0, 0.0);
        for (place, ink) in self.pixels.iter().enumerate() {
            sum += ink;
            y += ink * ((place / self.width) as f64 + 0.5);
            x += ink * ((place % self.width) as f64 + 0.5);
        }
        (y / sum, x / sum)
    }

    /// The mean ink in a rectangle, which may reach beyond the drawing.
    fn covered(&self, [rows, columns]: Rectangle) -> f64 {
        let overlap =
            |place: usize, (low, high): (f64, f64)| (high.min((place + 1) as f64) - low.max(place as f64)).max(0.0);
        let touched = |(low, high): (f64, f64), count: usize| {
            let end = high.ceil().clamp(0.0, count as f64) as usize;
            (low.floor().clamp(0.0, count as f64) as usize)..end
        };
        let mut sum = 0.0;
        for row in touched(rows, self.height) {
            for column in touched(columns, self.width) {
                sum += self.pixels[row * self.width + column] * overlap(row, rows) * overlap(column, columns);
            }
        }
        let area = (rows.1 - rows.0) * (columns.1 - columns.0);
        if area > 0.0 { (sum / area).clamp(0.0, 1.0) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use glassgrad::data::Dataset as _;

    use super::*;
    use crate::experiment::predictions::unscaled;
    use crate::views::tests::suited;

    /// A drawing with full ink in a rectangle.
    fn bar(size: usize, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> Drawing {
        let ink =
            |place: usize| f64::from(u8::from(rows.contains(&(place / size)) && columns.contains(&(place % size))));
        Drawing { pixels: (0..size * size).map(ink).collect(), height: size, width: size }
    }

    #[test]
    fn large_images_are_fitted_into_twenty_pixels_by_their_mass() {
        // A bar of 200×60 becomes one of 20×6 in the middle, wherever it was drawn.
        for (top, left) in [(0, 0), (40, 200), (80, 110)] {
            let image = bar(280, top..top + 200, left..left + 60).like_images_of([28, 28]);
            for (place, pixel) in image.iter().enumerate() {
                let inside = (4..24).contains(&(place / 28)) && (11..17).contains(&(place % 28));
                assert!((pixel - f64::from(u8::from(inside))).abs() < 1e-9, "{place}: {pixel}");
            }
        }
        // The centre of mass is in the middle, though that of the rectangle is not.
        let mut hook = bar(280, 20..240, 50..70);
        let foot = bar(280, 220..240, 50..200);
        hook.pixels.iter_mut().zip(foot.pixels).for_each(|(ink, other)| *ink = ink.max(other));
        let image = hook.like_images_of([28, 28]);
        let centre = Drawing { pixels: image, height: 28, width: 28 }.centre_of_mass();
        // Positions within a pixel are lost, so that the match is not exact.
        assert!((centre.0 - 14.0).abs() < 0.02 && (centre.1 - 14.0).abs() < 0.02, "{centre:?}");
    }

    #[test]
    fn small_images_fill_their_field_and_count_blocks() {
        let image = bar(280, 100..180, 30..50).like_images_of([8, 8]);
        for (place, pixel) in image.iter().enumerate() {
            assert_eq!(*pixel, f64::from(u8::from((3..5).contains(&(place % 8)))), "{place}");
        }
        // A wide drawing is as wide as its field.
        let image = bar(64, 30..34, 0..64).like_images_of([8, 8]);
        assert_eq!((image[24..32].to_vec(), image[..24].to_vec()), (vec![0.25; 8], vec![0.0; 24]));
        // Every drawing is black and white before its blocks are counted.
        let faint = Drawing { pixels: vec![0.4; 64], height: 8, width: 8 };
        assert!(faint.like_images_of([8, 8]).iter().all(|pixel| *pixel == 0.0));
    }

    #[test]
    fn ink_is_kept_when_nothing_is_scaled() {
        // A drawing that fits already stays as it is, but for its place.
        let own = bar(28, 4..24, 10..18);
        let expected = own.pixels.clone();
        assert!(
            own.like_images_of([28, 28]).iter().zip(expected).all(|(pixel, expected)| (pixel - expected).abs() < 1e-9)
        );
    }

    #[test]
    fn digits_that_are_drawn_again_are_nearest_to_their_kind() {
        let study = suited("digits", |_| {});
        let (inputs, classes) = study.task.test.batch(&(0..60).collect::<Vec<usize>>()).expect("digits");
        let classes = classes.to_vec::<i64>().expect("classes");
        let pixels = unscaled(&study.task.about, &inputs, 60).expect("pixels");
        let digits: Vec<&[f64]> = pixels.chunks(64).collect();
        let mut found = 0;
        for (number, digit) in digits.iter().enumerate() {
            // Somewhere on a canvas, twenty times as large, with soft edges.
            let ink = |row: f64, column: f64| match (0.0..8.0).contains(&row) && (0.0..8.0).contains(&column) {
                true => digit[8 * row as usize + column as usize].clamp(0.0, 1.0),
                false => 0.0,
            };
            let soft = |place: usize| {
                let (y, x) = (((place / 280) as f64 - 60.0) / 20.0 - 0.5, ((place % 280) as f64 - 95.0) / 20.0 - 0.5);
                let (top, left) = (y.floor(), x.floor());
                let along = |row: f64| ink(row, left) * (1.0 - (x - left)) + ink(row, left + 1.0) * (x - left);
                along(top) * (1.0 - (y - top)) + along(top + 1.0) * (y - top)
            };
            let canvas: Vec<f64> = (0..280 * 280).map(soft).collect();
            let again = prepared(&study, &canvas, [280, 280]).expect("an image");
            let distance = |other: &[f64]| again.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
            let nearest = (0..digits.len()).min_by(|a, b| distance(digits[*a]).total_cmp(&distance(digits[*b])));
            found += usize::from(nearest.is_some_and(|nearest| classes[nearest] == classes[number]));
        }
        assert!(found >= 56, "{found} of 60 are found again");
    }

    #[test]
    fn empty_and_hostile_drawings() {
        let study = suited("digits", |_| {});
        assert_eq!(prepared(&study, &[0.0; 100], [10, 10]).expect("an image"), vec![0.0; 64]);
        assert_eq!(prepared(&study, &[1.0], [1, 1]).expect("an image"), vec![1.0; 64]);
        let refused = |pixels: &[f64], from| prepared(&study, pixels, from).unwrap_err().to_string();
        assert!(refused(&[], [0, 0]).contains("pixels"));
        assert!(refused(&[0.0; 99], [10, 10]).contains("100 pixels, not 99"));
        assert!(refused(&[f64::NAN], [1, 1]).contains("ink"));
        assert!(refused(&[0.0], [usize::MAX, usize::MAX]).contains("at most"));
        let rows = suited("moons", |_| {});
        assert!(prepared(&rows, &[1.0], [1, 1]).is_err());
    }
}
