//! Deltas (gitformat-pack): an object as parts of another one, its base, and new bytes.

/// The bytes are not a delta for this base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidDelta;

/// The sizes of base and result that a delta states at its beginning, and the rest of it.
pub fn parse_sizes(delta: &[u8]) -> Result<(u64, u64, &[u8]), InvalidDelta> {
    let (base, rest) = parse_size(delta)?;
    let (result, rest) = parse_size(rest)?;
    Ok((base, result, rest))
}

fn parse_size(mut bytes: &[u8]) -> Result<(u64, &[u8]), InvalidDelta> {
    let (mut size, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first().ok_or(InvalidDelta)?;
        let bits = u64::from(byte & 0x7f);
        if shift > 60 {
            return Err(InvalidDelta);
        }
        size |= bits << shift;
        (bytes, shift) = (rest, shift + 7);
        if byte & 0x80 == 0 {
            return Ok((size, bytes));
        }
    }
}

/// The object that a delta makes of `base`. The caller has checked that the stated size of the result is
/// acceptable.
pub fn apply(base: &[u8], delta: &[u8]) -> Result<Vec<u8>, InvalidDelta> {
    let (base_size, result_size, mut rest) = parse_sizes(delta)?;
    if base_size != base.len() as u64 {
        return Err(InvalidDelta);
    }
    let result_size = usize::try_from(result_size).map_err(|_| InvalidDelta)?;
    let mut result = Vec::with_capacity(result_size);
    while let Some((instruction, after)) = rest.split_first() {
        rest = after;
        let part = if instruction & 0x80 != 0 {
            let mut field = |bits: std::ops::Range<u8>| -> Result<usize, InvalidDelta> {
                let mut value = 0;
                for (number, bit) in bits.enumerate() {
                    if instruction & (1 << bit) != 0 {
                        let (byte, after) = rest.split_first().ok_or(InvalidDelta)?;
                        value |= usize::from(*byte) << (8 * number);
                        rest = after;
                    }
                }
                Ok(value)
            };
            let (offset, size) = (field(0..4)?, field(4..7)?);
            let size = if size == 0 { 0x10000 } else { size };
            let end = offset.checked_add(size).ok_or(InvalidDelta)?;
            base.get(offset..end).ok_or(InvalidDelta)?
        } else {
            let (part, after) = rest.split_at_checked(usize::from(*instruction)).ok_or(InvalidDelta)?;
            rest = after;
            // An instruction of length 0 is reserved.
            if part.is_empty() {
                return Err(InvalidDelta);
            }
            part
        };
        if result.len() + part.len() > result_size {
            return Err(InvalidDelta);
        }
        result.extend_from_slice(part);
    }
    if result.len() == result_size { Ok(result) } else { Err(InvalidDelta) }
}

/// The delta of an edit: the common beginning and end of both versions are copied, and the rest is new.
pub fn of_edit(base: &[u8], result: &[u8]) -> Vec<u8> {
    let common = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| pairs.take_while(|(a, b)| a == b).count();
    let prefix = common(&mut base.iter().zip(result));
    let (base_rest, result_rest) = (base.get(prefix..).unwrap_or_default(), result.get(prefix..).unwrap_or_default());
    let suffix = common(&mut base_rest.iter().rev().zip(result_rest.iter().rev()));
    let mut delta = Vec::new();
    write_size(&mut delta, base.len());
    write_size(&mut delta, result.len());
    write_copy(&mut delta, 0, prefix);
    let new = result_rest.get(..result_rest.len() - suffix).unwrap_or_default();
    for part in new.chunks(127) {
        delta.extend(u8::try_from(part.len()));
        delta.extend_from_slice(part);
    }
    write_copy(&mut delta, base.len() - suffix, suffix);
    delta
}

fn write_size(out: &mut Vec<u8>, mut size: usize) {
    loop {
        let [low, ..] = size.to_le_bytes();
        size >>= 7;
        out.push(low & 0x7f | if size > 0 { 0x80 } else { 0 });
        if size == 0 {
            return;
        }
    }
}

fn write_copy(out: &mut Vec<u8>, mut offset: usize, mut size: usize) {
    while size > 0 {
        let part = size.min(0xff_ffff);
        let fields = offset.to_le_bytes().into_iter().take(4).chain(part.to_le_bytes().into_iter().take(3));
        let (mut instruction, mut bytes) = (0x80, Vec::new());
        for (bit, byte) in fields.enumerate().filter(|(_, byte)| *byte != 0) {
            instruction |= 1 << bit;
            bytes.push(byte);
        }
        out.push(instruction);
        out.extend_from_slice(&bytes);
        (offset, size) = (offset + part, size - part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delta_of_an_edit_makes_the_result() {
        let long: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[1] ^ number.to_le_bytes()[0]).collect();
        let mut edited = long.clone();
        edited.splice(100_000..100_010, [1; 500]);
        let very_long = vec![7; 17 << 20];
        let cases: [(&[u8], &[u8]); 8] = [
            (b"", b""),
            (b"", b"new"),
            (b"old", b""),
            (b"same", b"same"),
            (b"aaaa", b"aaaaaa"),
            (b"one\ntwo\nthree\n", b"one\n2\nthree\n"),
            (&long, &edited),
            (&very_long, &very_long),
        ];
        for (base, result) in cases {
            let delta = of_edit(base, result);
            assert_eq!(apply(base, &delta).as_deref(), Ok(result));
            assert!(delta.len() < 20 + (result.len().abs_diff(base.len())).max(20) * 2);
        }
    }

    #[test]
    fn deltas_that_lie_are_invalid() {
        let good = of_edit(b"one two three", b"one 2 three");
        for end in 0..good.len() {
            assert_eq!(apply(b"one two three", &good[..end]), Err(InvalidDelta), "cut at {end}");
        }
        assert_eq!(apply(b"one two", &good), Err(InvalidDelta), "another base");
        for bad in [
            &[3, 5, 0x91, 0, 4][..],
            &[3, 2, 0x90, 3],
            &[3, 3, 0],
            &[3, 4, 0x90, 3],
            &[3, 3, 0x91, 0xff, 3],
            &[0x80; 12],
        ] {
            assert_eq!(apply(b"abc", bad), Err(InvalidDelta), "{bad:?}");
        }
    }
}
