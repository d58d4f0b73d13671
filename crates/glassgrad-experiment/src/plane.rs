//! A rectangular grid of points in the plane.

/// A rectangle of the plane, with the ends of its sides, and a grid of the middles of equal fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plane {
    pub across: (f64, f64),
    pub up: (f64, f64),
    /// Grid points along each side.
    pub places: usize,
}

impl Plane {
    /// The middles of all fields, pair by pair, row by row from the top, as pictures are written.
    pub fn points(&self) -> Vec<f64> {
        let middle = |place: usize, (low, high): (f64, f64)| {
            let part = (place as f64 + 0.5) / self.places as f64;
            low + (high - low) * part
        };
        let row =
            |row: usize| (0..self.places).flat_map(move |column| [middle(column, self.across), middle(row, self.up)]);
        (0..self.places).rev().flat_map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_point_is_at_the_top_on_the_left() {
        let plane = Plane { across: (0.0, 4.0), up: (-1.0, 1.0), places: 2 };
        assert_eq!(plane.points(), [1.0, 0.5, 3.0, 0.5, 1.0, -0.5, 3.0, -0.5]);
        assert!(Plane { places: 0, ..plane }.points().is_empty());
    }
}
