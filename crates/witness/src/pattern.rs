//! Where the calls of a session went: from the words of `struct pattern` (`bpf/shapes.h`) to what an observation has.

use crate::observation::Pattern;
use crate::shape::halves;

pub(crate) const MAX_PATTERNS: u32 = 32768;
const SEGMENTS: usize = 28;
pub(crate) const PATTERN_WORDS: usize = 18 + SEGMENTS / 2;
/// Bits of the largest segments of a bitmap, as a logarithm (`bpf/pattern.h`).
const MOST_BITS_LOG: u32 = 18;

/// None of a pattern without a call whose offset was seen, and without one that is known to be doubtful.
pub(crate) fn pattern(words: &[u64; PATTERN_WORDS]) -> Option<Pattern> {
    let [
        calls,
        sequential,
        rewinds,
        reused,
        unaligned,
        unsure,
        switches,
        unique_bytes,
        not_lowest,
        highest_bytes,
        fresh,
        continued,
        _,
        _,
        stride,
        stride_calls,
        ..,
    ] = *words;
    if calls == 0 && unsure == 0 {
        return None;
    }
    let lowest_bytes = if calls > 0 { !not_lowest } else { 0 };
    let span_bytes = highest_bytes.saturating_sub(lowest_bytes);
    let unique_bytes = unique_bytes.min(span_bytes);
    // One run from its first call on touched all between its ends, whatever the granules are.
    let is_exact = unaligned == 0 || sequential + 1 == calls;
    let granule_bytes = granule_bytes(halves(words[17]).0, highest_bytes);
    let error_bytes = unaligned.saturating_mul(2 * granule_bytes);
    Some(Pattern {
        calls,
        sequential,
        rewinds,
        reused,
        fresh,
        continued,
        stride_bytes: i64::from_ne_bytes(stride.to_ne_bytes()),
        stride_calls,
        unique_bytes,
        error_bytes: if is_exact { 0 } else { error_bytes.min(unique_bytes) },
        lowest_bytes,
        highest_bytes,
        switches,
        unsure,
    })
}

/// The largest granule of a bitmap that ends at `highest_bytes`.
fn granule_bytes(granule_log: u32, highest_bytes: u64) -> u64 {
    let last = (highest_bytes.max(1) - 1) >> granule_log;
    let log = last.max(1).ilog2();
    1 << (granule_log + log.saturating_sub(MOST_BITS_LOG))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG_4096: u64 = 12;

    fn words(pairs: &[(usize, u64)]) -> [u64; PATTERN_WORDS] {
        let mut words = [0; PATTERN_WORDS];
        words[17] = LOG_4096;
        for &(place, value) in pairs {
            words[place] = value;
        }
        words
    }

    #[test]
    fn sizes_are_those_of_the_programs() {
        let (shapes, programs) = (include_str!("../bpf/shapes.h"), include_str!("../bpf/pattern.h"));
        assert!(shapes.contains(&format!("#define MAX_PATTERNS {MAX_PATTERNS}\n")));
        assert!(shapes.contains(&format!("#define SEGMENTS {SEGMENTS}\n")));
        assert!(programs.contains(&format!("#define MOST_BITS_LOG {MOST_BITS_LOG}\n")));
    }

    #[test]
    fn no_call_is_no_pattern_and_a_doubtful_one_is() {
        assert_eq!(pattern(&words(&[])), None);
        let doubtful = pattern(&words(&[(5, 1)])).unwrap();
        assert_eq!((doubtful.calls, doubtful.unsure, doubtful.lowest_bytes), (0, 1, 0));
    }

    #[test]
    fn aligned_calls_are_exact_and_others_as_far_off_as_their_ends() {
        let aligned = [(0, 10), (7, 40960), (8, !4096), (9, 1 << 20), (14, !4095), (15, 9)];
        let exact = pattern(&words(&aligned)).unwrap();
        assert_eq!((exact.unique_bytes, exact.error_bytes), (40960, 0));
        assert_eq!((exact.lowest_bytes, exact.highest_bytes), (4096, 1 << 20));
        assert_eq!((exact.stride_bytes, exact.stride_calls), (-4096, 9));
        let mut odd = words(&aligned);
        odd[4] = 2;
        assert_eq!(pattern(&odd).unwrap().error_bytes, 4 * 4096);
        odd[4] = 10;
        assert_eq!(pattern(&odd).unwrap().error_bytes, 40960);
    }

    #[test]
    fn one_run_is_exact_whatever_its_calls_are() {
        let run = words(&[(0, 10), (1, 9), (4, 10), (7, 4096), (8, !100), (9, 100 + 10 * 100)]);
        let run = pattern(&run).unwrap();
        assert_eq!((run.unique_bytes, run.error_bytes), (1000, 0));
    }

    #[test]
    fn granules_grow_where_segments_do_not() {
        let of = |log, highest| granule_bytes(log, highest);
        assert_eq!(of(12, 0), 4096);
        assert_eq!(of(12, 2 << 30), 4096);
        assert_eq!(of(12, (2 << 30) + 1), 8192);
        assert_eq!(of(9, 256 << 20), 512);
        assert_eq!(of(9, (256 << 20) + 1), 1024);
        assert_eq!(of(12, 1 << 40), 2 << 20);
    }
}
