//! Memory for very many lists that grow byte by byte. A list consists of slices of large blocks. Each slice links to
//! the next, larger one. Bytes are never moved or freed, so the memory in use is known.

/// Bytes in a block. A slice never crosses two blocks.
const BLOCK: usize = 64 << 10;

/// The sizes of the slices of a list, in order. Further slices are as large as the last one. A slice ends with the
/// address of the next slice.
const SLICES: [usize; 12] = [12, 24, 48, 96, 192, 384, 768, 1536, 3072, 6144, 12_288, 24_576];

/// The bytes of an address.
const LINK: usize = 4;

/// A location in the pool: a block and an offset.
pub type Address = u32;

#[derive(Default)]
pub struct BytePool {
    blocks: Vec<Vec<u8>>,
}

/// A list in a pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByteList {
    first: Address,
    /// The location of the next byte.
    next: Address,
    /// The free bytes of the last slice.
    remaining: u16,
    slices: u16,
}

impl BytePool {
    /// The bytes of all blocks.
    pub fn memory(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    /// Allocates `length` consecutive bytes. A request for more bytes than a block gets a block of its own.
    fn allocate(&mut self, length: usize) -> Address {
        let used = self.blocks.last().map_or(BLOCK, Vec::len);
        if used + length > BLOCK {
            self.blocks.push(Vec::with_capacity(BLOCK.max(length)));
        }
        let number = self.blocks.len().saturating_sub(1);
        let Some(block) = self.blocks.last_mut() else { return 0 };
        let offset = block.len();
        block.resize(offset + length, 0);
        (number * BLOCK + offset) as Address
    }

    fn bytes_mut(&mut self, address: Address, length: usize) -> Option<&mut [u8]> {
        let (number, offset) = (address as usize / BLOCK, address as usize % BLOCK);
        self.blocks.get_mut(number)?.get_mut(offset..offset + length)
    }

    /// `length` bytes from `address` on; empty if the pool does not have them.
    pub fn bytes(&self, address: Address, length: usize) -> &[u8] {
        let (number, offset) = (address as usize / BLOCK, address as usize % BLOCK);
        self.blocks.get(number).and_then(|block| block.get(offset..offset + length)).unwrap_or_default()
    }

    /// Stores `bytes`, to be read with [`Self::bytes`].
    pub fn store(&mut self, bytes: &[u8]) -> Address {
        let address = self.allocate(bytes.len());
        if let Some(to) = self.bytes_mut(address, bytes.len()) {
            to.copy_from_slice(bytes);
        }
        address
    }

    /// Appends a byte to a list.
    #[inline]
    pub fn push(&mut self, list: &mut ByteList, byte: u8) {
        if list.remaining == 0 {
            self.add_slice(list);
        }
        if let Some([to]) = self.bytes_mut(list.next, 1) {
            *to = byte;
        }
        list.next += 1;
        list.remaining -= 1;
    }

    /// Appends bytes to a list.
    #[inline]
    pub fn extend(&mut self, list: &mut ByteList, bytes: &[u8]) {
        if bytes.len() > usize::from(list.remaining) {
            return bytes.iter().for_each(|byte| self.push(list, *byte));
        }
        if let Some(to) = self.bytes_mut(list.next, bytes.len()) {
            to.copy_from_slice(bytes);
        }
        list.next += bytes.len() as Address;
        list.remaining -= bytes.len() as u16;
    }

    fn add_slice(&mut self, list: &mut ByteList) {
        let size = slice_size(list.slices);
        let slice = self.allocate(size);
        if list.slices == 0 {
            list.first = slice;
        } else if let Some(link) = self.bytes_mut(list.next, LINK) {
            link.copy_from_slice(&slice.to_le_bytes());
        }
        list.next = slice;
        list.remaining = (size - LINK) as u16;
        list.slices = list.slices.saturating_add(1);
    }

    /// Replaces `into` by the bytes of a list.
    pub fn read(&self, list: &ByteList, into: &mut Vec<u8>) {
        into.clear();
        let mut slice = list.first;
        for number in 0..list.slices {
            let length = slice_size(number) - LINK;
            if number + 1 == list.slices {
                into.extend_from_slice(self.bytes(slice, length - usize::from(list.remaining)));
            } else {
                into.extend_from_slice(self.bytes(slice, length));
                let link = self.bytes(slice + length as Address, LINK);
                slice = link.first_chunk::<LINK>().map_or(0, |link| Address::from_le_bytes(*link));
            }
        }
    }
}

fn slice_size(number: u16) -> usize {
    SLICES.get(usize::from(number)).or(SLICES.last()).copied().unwrap_or(BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_grow_in_turns_keep_their_bytes() {
        let mut pool = BytePool::default();
        let mut lists = [ByteList::default(); 7];
        let text = pool.store(b"between");
        for number in 0..200_000_usize {
            // Lengths differ: some lists end at a link, and some are empty.
            let list = number % 7;
            if number < [0, 7, 70, 700, 7000, 70_000, 200_000][list] {
                match list {
                    5 => pool.extend(&mut lists[list], &[(number / 7) as u8]),
                    _ => pool.push(&mut lists[list], (number / 7) as u8),
                }
            }
        }
        assert_eq!(pool.bytes(text, 7), b"between");
        let mut bytes = Vec::new();
        for (index, list) in lists.iter().enumerate() {
            pool.read(list, &mut bytes);
            let end = [0, 7, 70, 700, 7000, 70_000, 200_000][index];
            let expected: Vec<u8> = (0..end).skip(index).step_by(7).map(|number| (number / 7) as u8).collect();
            assert_eq!(bytes, expected, "list {index}");
        }
        assert!(pool.memory() < 200_000, "{}", pool.memory());
    }

    #[test]
    fn several_bytes_may_cross_slices() {
        let mut pool = BytePool::default();
        let mut list = ByteList::default();
        let mut expected = Vec::new();
        for number in 0..10_000_usize {
            let bytes = vec![number as u8; number % 6];
            pool.extend(&mut list, &bytes);
            expected.extend(bytes);
        }
        let mut read = Vec::new();
        pool.read(&list, &mut read);
        assert_eq!(read, expected);
    }

    #[test]
    fn a_text_longer_than_a_block_is_kept() {
        let mut pool = BytePool::default();
        let long = vec![7; BLOCK + 1];
        let addresses = [pool.store(b"a"), pool.store(&long), pool.store(b"b")];
        assert_eq!(pool.bytes(addresses[1], long.len()), long);
        assert_eq!([pool.bytes(addresses[0], 1), pool.bytes(addresses[2], 1)], [b"a", b"b"]);
    }
}
