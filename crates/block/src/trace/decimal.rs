//! Decimal times as whole nanoseconds, exactly: nothing goes through floating point.

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    #[default]
    Seconds,
    Milliseconds,
    Microseconds,
    Nanoseconds,
}

impl Unit {
    /// How many decimal digits of it reach down to a nanosecond.
    pub(super) const fn digits(self) -> usize {
        match self {
            Self::Seconds => 9,
            Self::Milliseconds => 6,
            Self::Microseconds => 3,
            Self::Nanoseconds => 0,
        }
    }

    pub const fn nanoseconds(self) -> u64 {
        POWERS_OF_TEN[self.digits()]
    }
}

pub(super) const POWERS_OF_TEN: [u64; 10] = {
    let mut powers = [1; 10];
    let mut index = 1;
    while index < 10 {
        powers[index] = powers[index - 1] * 10;
        index += 1;
    }
    powers
};

/// `whole` units and a fraction of `fraction_digits` (at most nine) digits, in nanoseconds. What
/// is finer than a nanosecond is dropped, which never changes an order. `None` beyond 64 bits.
#[inline(always)]
pub(super) fn scaled(whole: u64, fraction: u64, fraction_digits: usize, unit: Unit) -> Option<u64> {
    let digits = unit.digits();
    let below = if fraction_digits <= digits {
        fraction * POWERS_OF_TEN[digits - fraction_digits]
    } else {
        fraction / POWERS_OF_TEN[fraction_digits - digits]
    };
    whole.checked_mul(POWERS_OF_TEN[digits])?.checked_add(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(scaled(1, 5, 1, Unit::Milliseconds), Some(1_500_000));
        assert_eq!(scaled(0, 1, 9, Unit::Seconds), Some(1));
        assert_eq!(scaled(0, 123_456_789, 9, Unit::Microseconds), Some(123));
        assert_eq!(scaled(7, 9, 1, Unit::Nanoseconds), Some(7));
        assert_eq!(scaled(18_446_744_073, 709_551_615, 9, Unit::Seconds), Some(u64::MAX));
        assert_eq!(scaled(18_446_744_073, 709_551_616, 9, Unit::Seconds), None);
    }
}
