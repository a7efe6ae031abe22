//! Groups of the Diffie-Hellman exchange: those of RFC 7919, and none.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd};

/// What is exchanged together with the challenges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// Nothing: who sees the exchange can try secrets on it.
    Null,
    Ffdhe2048,
    Ffdhe3072,
    Ffdhe4096,
    Ffdhe6144,
    Ffdhe8192,
}

/// All of them, by their identifiers (NVM Express Base Specification 2.0, section 8.13.5).
pub const GROUPS: [Group; 6] =
    [Group::Null, Group::Ffdhe2048, Group::Ffdhe3072, Group::Ffdhe4096, Group::Ffdhe6144, Group::Ffdhe8192];

/// The first 8064 bits of Euler's number, of which all primes of RFC 7919 are made:
/// p = 2^b - 2^(b-64) + ([2^(b-130) e] + X) 2^64 - 1.
const E: &str = "\
    ADF85458A2BB4A9AAFDC5620273D3CF1D8B9C583CE2D3695A9E13641146433FBCC939DCE249B3EF97D2FE363630C75D8\
    F681B202AEC4617AD3DF1ED5D5FD65612433F51F5F066ED0856365553DED1AF3B557135E7F57C935984F0C70E0E68B77\
    E2A689DAF3EFE8721DF158A136ADE73530ACCA4F483A797ABC0AB182B324FB61D108A94BB2C8E3FBB96ADAB760D7F468\
    1D4F42A3DE394DF4AE56EDE76372BB190B07A7C8EE0A6D709E02FCE1CDF7E2ECC03404CD28342F619172FE9CE98583FF\
    8E4F1232EEF28183C3FE3B1B4C6FAD733BB5FCBC2EC22005C58EF1837D1683B2C6F34A26C1B2EFFA886B4238611FCFDC\
    DE355B3B6519035BBC34F4DEF99C023861B46FC9D6E6C9077AD91D2691F7F7EE598CB0FAC186D91CAEFE130985139270\
    B4130C93BC437944F4FD4452E2D74DD364F2E21E71F54BFF5CAE82AB9C9DF69EE86D2BC522363A0DABC521979B0DEADA\
    1DBF9A42D5C4484E0ABCD06BFA53DDEF3C1B20EE3FD59D7C25E41D2B669E1EF16E6F52C3164DF4FB7930E9E4E58857B6\
    AC7D5F42D69F6D187763CF1D5503400487F55BA57E31CC7A7135C886EFB4318AED6A1E012D9E6832A907600A918130C4\
    6DC778F971AD0038092999A333CB8B7A1A1DB93D7140003C2A4ECEA9F98D0ACC0A8291CDCEC97DCF8EC9B55A7F88A46B\
    4DB5A851F44182E1C68A007E5E0DD9020BFD64B645036C7A4E677D2C38532A3A23BA4442CAF53EA63BB454329B7624C8\
    917BDD64B1C0FD4CB38E8C334C701C3ACDAD0657FCCFEC719B1F5C3E4E46041F388147FB4CFDB477A52471F7A9A96910\
    B855322EDB6340D8A00EF092350511E30ABEC1FFF9E3A26E7FB29F8C183023C3587E38DA0077D9B4763E4E4B94B2BBC1\
    94C6651E77CAF992EEAAC0232A281BF6B3A739C1226116820AE8DB5847A67CBEF9C9091B462D538CD72B03746AE77F5E\
    62292C311562A846505DC82DB854338AE49F5235C95B91178CCF2DD5CACEF403EC9D1810C6272B045B3B71F9DC6B80D6\
    3FDD4A8E9ADB1E6962A69526D43161C1A41D570D7938DAD4A40E329CCFF46AAA36AD004CF600C8381E425A31D951AE64\
    FDB23FCEC9509D43687FEB69EDD1CC5E0B8CC3BDF64B10EF86B63142A3AB8829555B2F747C932665CB2C0F1CC01BD702\
    29388839D2AF05E454504AC78B7582822846C0BA35C35F5C59160CC046FD8251541FC68C9C86B022BB7099876A460E74\
    51A8A93109703FEE1C217E6C3826E52C51AA691E0E423CFC99E9E31650C1217B624816CDAD9A95F9D5B8019488D9C0A0\
    A1FE3075A577E23183F81D4A3F2FA4571EFC8CE0BA8A4FE8B6855DFE72B0A66EDED2FBABFBE58A30FAFABE1C5D71A87E\
    2F741EF8C1FE86FEA6BBFDE530677F0D97D11D49F7A8443D0822E506A9F4614E011E2A94838FF88CD68C8BB7C51EEF6D";

/// Bits of `E`: those of the longest prime, without 64 ones at each end.
const E_BITS: u32 = 8064;

impl Group {
    pub fn of(id: u8) -> Option<Self> {
        GROUPS.get(usize::from(id)).copied()
    }

    pub fn id(self) -> u8 {
        self as u8
    }

    /// Bytes of a public value.
    pub fn public_bytes(self) -> usize {
        self.shape().0 as usize / 8
    }

    /// Bytes of a private exponent. RFC 7919, appendix A, wants 225 to 400 bits. Short ones take less time, which other clients wait for.
    pub fn private_bytes(self) -> usize {
        self.shape().2
    }

    /// Bits of the prime, X, and bytes of an exponent.
    fn shape(self) -> (u32, u32, usize) {
        match self {
            Group::Null => (0, 0, 0),
            Group::Ffdhe2048 => (2048, 560_316, 32),
            Group::Ffdhe3072 => (3072, 2_625_351, 40),
            Group::Ffdhe4096 => (4096, 5_736_041, 48),
            Group::Ffdhe6144 => (6144, 15_705_020, 48),
            Group::Ffdhe8192 => (8192, 10_965_728, 56),
        }
    }

    /// The prime, most significant byte first.
    pub fn prime(self) -> Vec<u8> {
        let (bits, x, _) = self.shape();
        if bits == 0 {
            return Vec::new();
        }
        let middle_bytes = (bits as usize - 128) / 8;
        let digits: Vec<u8> =
            E.bytes().filter_map(|digit| char::from(digit).to_digit(16)).map(|digit| digit as u8).collect();
        debug_assert_eq!(digits.len() as u32 * 4, E_BITS);
        let pairs = digits.chunks_exact(2).map(|pair| (pair[0] << 4) | pair[1]);
        let mut middle: Vec<u8> = pairs.take(middle_bytes).collect();
        let mut carry = u64::from(x) - 1; // which is what the last 64 ones borrow
        for byte in middle.iter_mut().rev() {
            carry += u64::from(*byte);
            *byte = carry as u8;
            carry >>= 8;
        }
        [&[0xff; 8][..], &middle, &[0xff; 8]].concat()
    }

    /// The public value of a private exponent.
    pub fn public(self, private: &[u8]) -> Vec<u8> {
        if self == Group::Null {
            return Vec::new();
        }
        self.power(&[2], private)
    }

    /// What both sides know: the other's public value to the power of one's own exponent. `None` for a
    /// value that is none, or that everybody knows the powers of.
    pub fn shared(self, public: &[u8], private: &[u8]) -> Option<Vec<u8>> {
        if public.len() != self.public_bytes() {
            return None;
        }
        if self == Group::Null {
            return Some(Vec::new());
        }
        let mut most = self.prime();
        *most.last_mut()? -= 1; // the prime is odd
        let least = public.iter().rev().skip(1).all(|byte| *byte == 0);
        let is_trivial = least && public.last().is_some_and(|byte| *byte < 2);
        (!is_trivial && public < &most[..]).then(|| self.power(public, private))
    }

    /// Takes a time that does not depend on the exponent.
    fn power(self, base: &[u8], exponent: &[u8]) -> Vec<u8> {
        let (bits, _, _) = self.shape();
        let number = |bytes: &[u8], bits: u32| {
            let mut whole = vec![0; bits as usize / 8 - bytes.len()];
            whole.extend_from_slice(bytes);
            BoxedUint::from_be_slice(&whole, bits).unwrap_or_else(|_| BoxedUint::zero())
        };
        let Some(prime) = Option::<Odd<_>>::from(Odd::new(number(&self.prime(), bits))) else {
            return Vec::new();
        };
        let field = BoxedMontyParams::new_vartime(prime);
        let exponent_bits = exponent.len() as u32 * 8;
        let exponent = number(exponent, exponent_bits.next_multiple_of(64));
        let power = BoxedMontyForm::new(number(base, bits), field).pow_bounded_exp(&exponent, exponent_bits);
        power.retrieve().to_be_bytes().into_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_are_those_of_rfc_7919() {
        let ends = [
            (Group::Ffdhe2048, "886b423861285c97"),
            (Group::Ffdhe3072, "25e41d2b66c62e37"),
            (Group::Ffdhe4096, "c68a007e5e655f6a"),
            (Group::Ffdhe6144, "a40e329cd0e40e65"),
            (Group::Ffdhe8192, "d68c8bb7c5c6424c"),
        ];
        for (group, end) in ends {
            let hex = |bytes: &[u8]| {
                let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
                digits.collect::<String>()
            };
            let prime = hex(&group.prime());
            assert_eq!(prime.len(), 2 * group.public_bytes());
            assert!(prime.starts_with("ffffffffffffffffadf85458a2bb4a9aafdc5620273d3cf1"));
            assert!(prime.ends_with(&format!("{end}ffffffffffffffff")), "{prime}");
        }
    }

    #[test]
    fn both_sides_come_to_the_same() {
        for group in GROUPS {
            let exponent = |seed: u8| vec![seed; group.private_bytes()];
            let (ours, theirs) = (group.public(&exponent(0xa7)), group.public(&exponent(0x39)));
            let shared = group.shared(&theirs, &exponent(0xa7));
            assert_eq!(shared, group.shared(&ours, &exponent(0x39)), "{group:?}");
            assert_eq!(shared.unwrap().len(), group.public_bytes());
        }
    }

    #[test]
    fn a_public_value_whose_powers_everybody_knows_is_refused() {
        let group = Group::Ffdhe2048;
        let exponent = [0x55; 32];
        let mut less_one = group.prime();
        *less_one.last_mut().unwrap() -= 1;
        let mut two = vec![0; 256];
        two[255] = 2;
        assert!(group.shared(&two, &exponent).is_some());
        let mut one = two.clone();
        one[255] = 1;
        for bad in [&one[..], &[0; 256], &less_one, &group.prime(), &[0xff; 256], &[5; 255], &[]] {
            assert_eq!(group.shared(bad, &exponent), None);
        }
    }
}
