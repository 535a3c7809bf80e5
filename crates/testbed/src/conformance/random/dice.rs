//! A small generator of numbers (SplitMix64): the same everywhere and for ever.
//!
//! Owns chance; nothing else in the conformance run may have any.

/// A stream of numbers that depends on a seed and an index only.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64, index: u32) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(index) << 17));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `sides`.
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides.max(1)
    }

    /// One of several.
    pub(super) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        let place = usize::try_from(self.roll(all.len() as u64)).unwrap_or_default();
        all.get(place)
            .unwrap_or_else(|| unreachable!("the place is below the length"))
    }

    /// One of several texts.
    pub(super) fn text(&mut self, all: &[&'static str]) -> &'static str {
        self.pick::<&'static str>(all)
    }

    /// The text once in `times`, else nothing.
    pub(super) fn maybe(&mut self, times: u64, text: &'static str) -> &'static str {
        if self.roll(times) == 0 { text } else { "" }
    }
}
