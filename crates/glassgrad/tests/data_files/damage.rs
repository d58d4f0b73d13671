//! Damage: every beginning of a file, and many files with wrong bytes.

use glassgrad::rng::Key;

/// Calls a function with every beginning of a file, and with 20,000 copies of which some bytes are changed, taken out or
/// repeated.
pub(super) fn damaged(bytes: &[u8], seed: u64, mut see: impl FnMut(&[u8])) {
    (0..bytes.len()).for_each(|end| see(&bytes[..end]));
    let key = Key::new(seed);
    for round in 0..20_000_u64 {
        let draws = key.fold(round);
        let mut copy = bytes.to_vec();
        for change in 0..1 + draws.bits(0) % 4 {
            let draw = |place: u64| draws.bits(1 + 4 * change + place) as usize;
            let place = draw(0) % copy.len();
            match draw(1) % 8 {
                0 => drop(copy.remove(place)),
                1 => copy.insert(place, copy[place]),
                2 => copy[place] ^= 1 << (draw(2) % 8),
                3 => copy[place] = [0, 255, b',', b'"', b'\n', b';', b'0', b'x'][draw(2) % 8],
                _ => copy[place] = draw(2) as u8,
            }
            if copy.is_empty() {
                break;
            }
        }
        see(&copy);
    }
}
