//! Division by a number that is known only when the drive is, without the processor's divider.
//!
//! A page is split into element and place at every write. The divider takes 10 to 25 cycles of
//! that; a multiplication takes 3.

/// Divides 32-bit numbers by one and the same divisor, exactly.
///
/// `n / d = ((n + 1) * m) >> 64` with `m = (2^64 - 1) / d`, rounded down: the multiply-add form of A. D. Robison,
/// "N-Bit Unsigned Division via N-Bit Multiply-Add", ARITH 2005. With 64 bits for 32-bit operands it holds for every
/// numerator and every divisor, 1 included: `m = (2^64 - e) / d` with `1 <= e <= d`, so what is shifted is short of
/// `(n + 1) / d` by more than 0 and by at most `2^-32`, which is less than `1 / d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Divisor {
    reciprocal: u64,
    divisor: u32,
}

impl Divisor {
    /// Prepares the division by `divisor`, or by 1 in place of 0, which no checked specification has.
    pub const fn new(divisor: u32) -> Self {
        let divisor = if divisor > 0 { divisor } else { 1 };
        Self { reciprocal: u64::MAX / divisor as u64, divisor }
    }

    pub const fn get(self) -> u32 {
        self.divisor
    }

    #[inline]
    pub const fn div(self, numerator: u32) -> u32 {
        let product = (numerator as u64 + 1) as u128 * self.reciprocal as u128;
        (product >> 64) as u32
    }

    #[inline]
    pub const fn rem(self, numerator: u32) -> u32 {
        self.div_rem(numerator).1
    }

    /// `(numerator / divisor, numerator % divisor)`.
    #[inline]
    pub const fn div_rem(self, numerator: u32) -> (u32, u32) {
        let quotient = self.div(numerator);
        (quotient, numerator - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;
    use proptest::prelude::*;

    fn check(numerator: u32, divisor: u32) {
        let fast = Divisor::new(divisor);
        let (quotient, remainder) = (numerator / divisor, numerator % divisor);
        assert_eq!(fast.div(numerator), quotient, "{numerator} / {divisor}");
        assert_eq!(fast.rem(numerator), remainder, "{numerator} % {divisor}");
        assert_eq!(fast.div_rem(numerator), (quotient, remainder));
        assert_eq!(fast.get(), divisor);
    }

    #[test]
    fn edges_divide_exactly() {
        let edges = [1, 2, 3, 48, 63, 64, 65, 641, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX];
        for divisor in edges {
            for numerator in edges {
                check(numerator - 1, divisor);
                check(numerator, divisor);
                // Around a multiple of the divisor, where rounding would show.
                let multiple = u32::MAX - u32::MAX % divisor;
                check(multiple, divisor);
                check(multiple - 1, divisor);
            }
        }
    }

    proptest! {
        #[test]
        fn division_is_that_of_the_processor(
            numerator: u32, divisor in prop_oneof![1..=u32::MAX, 1_u32..5000],
        ) {
            check(numerator, divisor);
        }
    }
}
