//! Numbers that look random, and come again with the same seed.

/// A stream of numbers (xorshift).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        // Neighbouring seeds are to have nothing in common, and zero would stay zero.
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below the end; 0 where there is none.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 20) % end.max(1)
    }
}
