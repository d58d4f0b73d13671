//! Several arrays of NumPy in one file: an archive of the zip format, each member of which is an array.
//!
//! The list of members stands at the end of an archive. Members that are stored or deflated are read; they are expanded only as far
//! as the central directory declares, and must have the declared length and checksum.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use super::npy::{held_bytes, npy_from_bytes};
use super::whole::whole;
use crate::array::Array;
use crate::error::Error;

const END: &[u8] = b"PK\x05\x06";
const MEMBER: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";
/// The ZIP64 marker of a length that 32 bits do not hold.
const ELSEWHERE: u64 = 0xffff_ffff;
/// The default limit on the memory of all arrays together, in bytes.
const LARGEST_EXPANDED: usize = 1 << 31;
/// The number of bytes of a member that are decompressed to read the header of its array.
const BEGINNING: u64 = 4096;
/// No byte becomes more than this many when it is expanded, so members that claim more lie over each other.
const MOST_FROM_A_BYTE: usize = 1032;

/// Reads all arrays of an `.npz` file, by name. Together they may take up to 2³¹ bytes of memory; see [`read_npz_within`].
///
/// ```
/// let error = glassgrad::data::files::read_npz("no/such.npz").unwrap_err();
/// assert!(error.to_string().starts_with("npz: cannot read no/such.npz: "), "{error}");
/// ```
pub fn read_npz(path: impl AsRef<Path>) -> Result<BTreeMap<String, Array>, Error> {
    let path = path.as_ref();
    npz_from_bytes(&whole("npz", path)?).map_err(|error| error.within(path.display()))
}

/// Reads all arrays of an `.npz` file, by name, within a limit on the memory of all of them together. What the file declares is
/// compared with the limit before anything is expanded.
///
/// ```
/// let error = glassgrad::data::files::read_npz_within("no/such.npz", 1 << 34).unwrap_err();
/// assert!(error.to_string().starts_with("npz: cannot read no/such.npz: "), "{error}");
/// ```
pub fn read_npz_within(path: impl AsRef<Path>, limit: usize) -> Result<BTreeMap<String, Array>, Error> {
    let path = path.as_ref();
    arrays(&whole("npz", path)?, limit).map_err(|error| error.within(path.display()))
}

/// The arrays in the bytes of an `.npz` file, by name. Together they may take up to 2³¹ bytes of memory.
///
/// ```
/// let error = glassgrad::data::files::npz_from_bytes(b"no archive").unwrap_err();
/// assert_eq!(error.message(), "it does not end as an archive does");
/// ```
pub fn npz_from_bytes(bytes: &[u8]) -> Result<BTreeMap<String, Array>, Error> {
    arrays(bytes, LARGEST_EXPANDED)
}

fn arrays(bytes: &[u8], limit: usize) -> Result<BTreeMap<String, Array>, Error> {
    let (mut arrays, mut left) = (BTreeMap::new(), Left { limit, bytes: limit });
    // What is expanded from an archive is bounded by its length too, however many members lie over each other.
    let mut from_length = bytes.len().saturating_mul(MOST_FROM_A_BYTE);
    for member in members(bytes)? {
        let within = |error: Error| error.within(format!("{:?}", member.name));
        let expanded = member.expanded(bytes, from_length, &left).map_err(within)?;
        from_length -= expanded.len();
        let array = npy_from_bytes(&expanded).map_err(within)?;
        left.bytes -= expanded.len().max(held_bytes(&expanded).unwrap_or(0)).min(left.bytes);
        let name = member.name.strip_suffix(".npy").unwrap_or(&member.name).to_owned();
        if arrays.insert(name.clone(), array).is_some() {
            return Err(Error::new("npz", format!("there are two arrays of the name {name:?}")));
        }
    }
    Ok(arrays)
}

/// The memory that arrays may take in all, and what is left of it.
struct Left {
    limit: usize,
    bytes: usize,
}

impl Left {
    /// Refuses an array that needs more.
    fn check(&self, needed: u64, packed: u64) -> Result<(), Error> {
        if needed <= self.bytes as u64 {
            return Ok(());
        }
        let Left { limit, bytes } = self;
        let message = format!(
            "its array takes {needed} bytes, from {packed} packed ones; of the limit of {limit} bytes {bytes} are left"
        );
        let help = "store fewer or smaller arrays in a file; in Rust, read_npz_within takes another limit";
        Err(Error::new("npz", message).help(help))
    }
}

/// The entry of a member in the central directory.
struct Member {
    name: String,
    method: u16,
    checksum: u32,
    packed: u64,
    length: u64,
    /// The byte at which its own header begins.
    start: u64,
}

/// Numbers at places of a record, the lowest byte first; `None` behind its end.
struct Record<'a>(&'a [u8]);

impl Record<'_> {
    fn number<const N: usize>(&self, place: usize) -> Option<u64> {
        let bytes = self.0.get(place..)?.first_chunk::<N>()?;
        Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// The list of members.
fn members(bytes: &[u8]) -> Result<Vec<Member>, Error> {
    let refuse = |message: &str| Error::new("npz", message);
    // The end is followed by a comment of up to 65535 bytes.
    let earliest = bytes.len().saturating_sub(22 + 65_535);
    let end = bytes[earliest..].windows(END.len()).rposition(|window| window == END);
    let end = end.map(|place| earliest + place).ok_or_else(|| refuse("it does not end as an archive does"))?;
    let record = Record(&bytes[end..]);
    let record = (|| Some((record.number::<2>(10)?, record.number::<4>(16)?)))();
    let (count, list) = record.ok_or_else(|| refuse("the end of the archive is cut off"))?;
    if count == 0xffff || list == ELSEWHERE {
        return Err(refuse("it is an archive with more than 65534 members or 4 GiB, which is not read"));
    }
    let (mut members, mut place) = (Vec::new(), list as usize);
    for number in 0..count {
        let damaged = || refuse(&format!("member {number} of the list, at byte {place}, is damaged"));
        let rest = bytes.get(place..end).filter(|rest| rest.starts_with(MEMBER)).ok_or_else(damaged)?;
        let (member, length) = member(rest).ok_or_else(damaged)?;
        place += length;
        members.push(member);
    }
    Ok(members)
}

/// The first entry of the central directory, and its length.
fn member(rest: &[u8]) -> Option<(Member, usize)> {
    let record = Record(rest);
    let [name, extra, comment] = [28, 30, 32].map(|place| record.number::<2>(place).map(|length| length as usize));
    let (name, extra, comment) = (name?, extra?, comment?);
    let text = rest.get(46..46 + name)?;
    let mut member = Member {
        name: String::from_utf8_lossy(text).into_owned(),
        method: record.number::<2>(10)? as u16,
        checksum: record.number::<4>(16)? as u32,
        packed: record.number::<4>(20)?,
        length: record.number::<4>(24)?,
        start: record.number::<4>(42)?,
    };
    member.find_elsewhere(rest.get(46 + name..46 + name + extra)?)?;
    Some((member, 46 + name + extra + comment))
}

impl Member {
    /// Lengths of 64 bits are in an extra field of the number 1, those that are there in this order.
    fn find_elsewhere(&mut self, mut extra: &[u8]) -> Option<()> {
        let mut missing = vec![&mut self.length, &mut self.packed, &mut self.start];
        missing.retain(|number| **number == ELSEWHERE);
        if missing.is_empty() {
            return Some(());
        }
        while extra.len() >= 4 {
            let record = Record(extra);
            let (kind, size) = (record.number::<2>(0)?, record.number::<2>(2)? as usize);
            let field = extra.get(4..4 + size)?;
            if kind == 1 {
                for (index, number) in missing.into_iter().enumerate() {
                    *number = Record(field).number::<8>(8 * index)?;
                }
                return Some(());
            }
            extra = &extra[4 + size..];
        }
        None
    }

    /// Its bytes as they were before they were packed: bounded by the length of the archive, and within what is
    /// left of the limit.
    fn expanded(&self, bytes: &[u8], from_length: usize, left: &Left) -> Result<Vec<u8>, Error> {
        let refuse = |message: String| Error::new("npz", message);
        let packed = self
            .packed(bytes)
            .ok_or_else(|| refuse(format!("nothing is where it should be, at byte {}", self.start)))?;
        let declared = self.length;
        if declared > from_length as u64 {
            return Err(refuse(format!("{declared} bytes are more than the archive can hold beside the others")));
        }
        left.check(declared, self.packed)?;
        // Small integers take more memory in an array than in the file.
        let beginning = self.read(packed, declared.min(BEGINNING))?;
        left.check(held_bytes(&beginning).unwrap_or(0) as u64, self.packed)?;
        // One byte beyond the declared length detects excess data.
        let expanded = self.read(packed, declared + 1)?;
        if expanded.len() as u64 != declared {
            let actual = match expanded.len() as u64 > declared {
                true => "more".to_owned(),
                false => expanded.len().to_string(),
            };
            let message =
                format!("it is damaged: its length is declared as {declared} bytes, and it expands to {actual}");
            return Err(refuse(message).help("fetch or save the file again"));
        }
        let mut checksum = flate2::Crc::new();
        checksum.update(&expanded);
        match checksum.sum() == self.checksum {
            true => Ok(expanded),
            false => Err(refuse("it is damaged: its length or its checksum is not that of the list".to_owned())),
        }
    }

    /// The first bytes, or all where there are fewer.
    fn read(&self, packed: &[u8], count: u64) -> Result<Vec<u8>, Error> {
        let mut expanded = Vec::new();
        let is_there = usize::try_from(count).is_ok_and(|count| expanded.try_reserve_exact(count).is_ok());
        if !is_there {
            return Err(Error::new("npz", format!("there is no memory for the {count} bytes that it expands to")));
        }
        let read = match self.method {
            0 => packed.take(count).read_to_end(&mut expanded),
            8 => flate2::read::DeflateDecoder::new(packed).take(count).read_to_end(&mut expanded),
            other => {
                let message = format!("it is packed by the method {other}; only deflated ones are read");
                return Err(Error::new("npz", message));
            }
        };
        read.map_err(|error| {
            Error::new("npz", format!("it is damaged behind {} expanded bytes: {error}", expanded.len()))
        })?;
        Ok(expanded)
    }

    /// Its packed bytes, which stand behind a header of their own.
    fn packed<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let rest = bytes.get(usize::try_from(self.start).ok()?..)?;
        let record = Record(rest.starts_with(LOCAL).then_some(rest)?);
        let header = 30 + record.number::<2>(26)? as usize + record.number::<2>(28)? as usize;
        rest.get(header..)?.get(..usize::try_from(self.packed).ok()?)
    }
}
