//! Chance, from a seed and nothing else.
//!
//! Owns the one generator of the simulator. Must not be shared between tasks: each task forks its
//! own by name, so that one task's draws never shift another's.

use std::time::Duration;

/// A stream of numbers that depends on its seed alone (the splitmix64 recurrence).
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// A stream for this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent stream for the part of the world called `name`.
    pub fn fork(&self, name: &str) -> Self {
        let mut hash = self.0 ^ 0xcbf2_9ce4_8422_2325;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut fork = Self(hash);
        fork.draw();
        fork
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; zero when the bound is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw().checked_rem(bound).unwrap_or(0)
    }

    /// True in `percent` of a hundred draws.
    pub fn happens(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }

    /// `around` changed by at most `percent` up or down, in whole milliseconds.
    pub fn jitter(&mut self, around: Duration, percent: u8) -> Duration {
        let millis = u64::try_from(around.as_millis()).unwrap_or(u64::MAX);
        let spread = millis.saturating_mul(u64::from(percent)) / 100;
        let drawn = self.below(spread.saturating_mul(2).saturating_add(1));
        Duration::from_millis(millis.saturating_sub(spread).saturating_add(drawn))
    }

    /// A name ending of `length` characters, from the letters that Kubernetes itself uses.
    pub fn suffix(&mut self, length: usize) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..length)
            .filter_map(|_| {
                let index = usize::try_from(self.below(LETTERS.len() as u64)).ok()?;
                LETTERS.get(index).copied().map(char::from)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_twice_and_forks_differ() {
        let draws = |mut seed: Seed| (0..5).map(|_| seed.draw()).collect::<Vec<_>>();
        assert_eq!(draws(Seed::new(7)), draws(Seed::new(7)));
        assert_ne!(draws(Seed::new(7)), draws(Seed::new(8)));
        assert_ne!(draws(Seed::new(7).fork("a")), draws(Seed::new(7).fork("b")));
    }

    #[test]
    fn jitter_stays_within_its_percentage() {
        let mut seed = Seed::new(1);
        for _ in 0..200 {
            let drawn = seed.jitter(Duration::from_secs(10), 20);
            assert!((Duration::from_secs(8)..=Duration::from_secs(12)).contains(&drawn));
        }
    }
}
