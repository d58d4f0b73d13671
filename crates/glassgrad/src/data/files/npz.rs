//! Several arrays of NumPy in one file: an archive of the zip format, each member of which is an array.
//!
//! The list of members stands at the end of an archive. Members that are stored or deflated are read; they are expanded only as far
//! as the list tells, and must have the length and the checksum that it tells.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use super::npy::npy_from_bytes;
use super::whole::whole;
use crate::array::Array;
use crate::error::Error;

const END: &[u8] = b"PK\x05\x06";
const MEMBER: &[u8] = b"PK\x01\x02";
const LOCAL: &[u8] = b"PK\x03\x04";
/// What stands in the place of a length that 32 bits do not hold.
const ELSEWHERE: u64 = 0xffff_ffff;
/// All members together are expanded to at most so many bytes.
const LARGEST_EXPANDED: usize = 1 << 33;
/// No byte becomes more than this many when it is expanded, so members that claim more lie over each other.
const MOST_FROM_A_BYTE: usize = 1032;

/// Reads all arrays of an `.npz` file, by name. Together they may have up to 2³³ bytes.
///
/// ```
/// let error = glassgrad::data::files::read_npz("no/such.npz").unwrap_err();
/// assert!(error.to_string().starts_with("npz: cannot read no/such.npz: "), "{error}");
/// ```
pub fn read_npz(path: impl AsRef<Path>) -> Result<BTreeMap<String, Array>, Error> {
    let path = path.as_ref();
    npz_from_bytes(&whole("npz", path)?).map_err(|error| error.within(path.display()))
}

/// The arrays in the bytes of an `.npz` file, by name.
///
/// ```
/// let error = glassgrad::data::files::npz_from_bytes(b"no archive").unwrap_err();
/// assert_eq!(error.message(), "it does not end as an archive does");
/// ```
pub fn npz_from_bytes(bytes: &[u8]) -> Result<BTreeMap<String, Array>, Error> {
    let limit = bytes.len().saturating_mul(MOST_FROM_A_BYTE).min(LARGEST_EXPANDED);
    let (mut arrays, mut left) = (BTreeMap::new(), limit);
    for member in members(bytes)? {
        let expanded = member.expanded(bytes, left).map_err(|error| error.within(format!("{:?}", member.name)))?;
        left -= expanded.len();
        let array = npy_from_bytes(&expanded).map_err(|error| error.within(format!("{:?}", member.name)))?;
        let name = member.name.strip_suffix(".npy").unwrap_or(&member.name).to_owned();
        if arrays.insert(name.clone(), array).is_some() {
            return Err(Error::new("npz", format!("there are two arrays of the name {name:?}")));
        }
    }
    Ok(arrays)
}

/// What the list tells of a member.
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
    let told = (|| Some((record.number::<2>(10)?, record.number::<4>(16)?)))();
    let (count, list) = told.ok_or_else(|| refuse("the end of the archive is cut off"))?;
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

/// The first member of a list, and how long what it tells is.
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
        let mut wanted = vec![&mut self.length, &mut self.packed, &mut self.start];
        wanted.retain(|number| **number == ELSEWHERE);
        if wanted.is_empty() {
            return Some(());
        }
        while extra.len() >= 4 {
            let record = Record(extra);
            let (kind, size) = (record.number::<2>(0)?, record.number::<2>(2)? as usize);
            let field = extra.get(4..4 + size)?;
            if kind == 1 {
                for (index, number) in wanted.into_iter().enumerate() {
                    *number = Record(field).number::<8>(8 * index)?;
                }
                return Some(());
            }
            extra = &extra[4 + size..];
        }
        None
    }

    /// Its bytes as they were before they were packed, at most so many.
    fn expanded(&self, bytes: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
        let refuse = |message: String| Error::new("npz", message);
        let packed = self
            .packed(bytes)
            .ok_or_else(|| refuse(format!("nothing is where it should be, at byte {}", self.start)))?;
        if self.length > limit as u64 {
            return Err(refuse(format!("{} bytes are more than the archive can hold beside the others", self.length)));
        }
        let mut expanded = Vec::new();
        // One byte more than the list tells shows whether there is more.
        let most = self.length + 1;
        let read = match self.method {
            0 => packed.take(most).read_to_end(&mut expanded),
            8 => flate2::read::DeflateDecoder::new(packed).take(most).read_to_end(&mut expanded),
            other => return Err(refuse(format!("it is packed by the method {other}; only deflated ones are read"))),
        };
        read.map_err(|error| refuse(format!("it is damaged behind {} expanded bytes: {error}", expanded.len())))?;
        let mut checksum = flate2::Crc::new();
        checksum.update(&expanded);
        match expanded.len() as u64 == self.length && checksum.sum() == self.checksum {
            true => Ok(expanded),
            false => Err(refuse("it is damaged: its length or its checksum is not that of the list".to_owned())),
        }
    }

    /// Its packed bytes, which stand behind a header of their own.
    fn packed<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let rest = bytes.get(usize::try_from(self.start).ok()?..)?;
        let record = Record(rest.starts_with(LOCAL).then_some(rest)?);
        let header = 30 + record.number::<2>(26)? as usize + record.number::<2>(28)? as usize;
        rest.get(header..)?.get(..usize::try_from(self.packed).ok()?)
    }
}
