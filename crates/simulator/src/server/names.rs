//! Names and UIDs that nobody chose: counted, so that the same requests give the same ones.

use sha2::{Digest, Sha256};

/// The letters that the real server uses in generated names: no vowels, so no words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Room for the prefix in a generated name.
const PREFIX_LENGTH: usize = 58;

/// A counter behind all generated names and UIDs.
#[derive(Debug, Default)]
pub(crate) struct Names {
    count: u64,
    seed: u64,
}

impl Names {
    /// Starts over with another seed.
    pub(crate) fn reseed(&mut self, seed: u64) {
        self.seed = seed;
    }

    fn digest(&mut self) -> [u8; 32] {
        self.count += 1;
        let mut hash = Sha256::new();
        hash.update(self.seed.to_be_bytes());
        hash.update(self.count.to_be_bytes());
        hash.finalize().into()
    }

    /// A prefix with five letters behind it.
    pub(crate) fn generate(&mut self, prefix: &str) -> String {
        let digest = self.digest();
        let suffix = digest.iter().take(5).map(|byte| {
            let index = usize::from(*byte) % LETTERS.len();
            LETTERS.get(index).copied().map_or('b', char::from)
        });
        prefix.chars().take(PREFIX_LENGTH).chain(suffix).collect()
    }

    /// A UID in the form of a random UUID.
    pub(crate) fn uid(&mut self) -> String {
        let digest = self.digest();
        let mut hex = String::with_capacity(36);
        for (index, byte) in digest.iter().take(16).enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                hex.push('-');
            }
            let byte = match index {
                6 => (byte & 0x0f) | 0x40,
                8 => (byte & 0x3f) | 0x80,
                _ => *byte,
            };
            for nibble in [byte >> 4, byte & 0x0f] {
                hex.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
            }
        }
        hex
    }
}
