//! Base 64 in its URL-safe form without padding, for continue tokens.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Writes bytes as text.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .chain(std::iter::repeat(&0))
            .take(3)
            .fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte));
        for index in 0..=chunk.len() {
            let sextet = (group >> (18 - 6 * index)) & 0x3f;
            let letter = LETTERS.get(usize::try_from(sextet).unwrap_or(0));
            out.push(letter.copied().map_or('A', char::from));
        }
    }
    out
}

/// Reads text back; nothing when it is none of ours.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let sextets: Vec<u32> = text
        .trim_end_matches('=')
        .bytes()
        .map(|byte| {
            let index = LETTERS.iter().position(|letter| *letter == byte)?;
            u32::try_from(index).ok()
        })
        .collect::<Option<_>>()?;
    let mut out = Vec::with_capacity(sextets.len() * 3 / 4);
    for chunk in sextets.chunks(4) {
        let group = chunk
            .iter()
            .chain(std::iter::repeat(&0))
            .take(4)
            .fold(0_u32, |sum, sextet| (sum << 6) | sextet);
        let bytes = group.to_be_bytes();
        out.extend(bytes.iter().skip(1).take(chunk.len().saturating_sub(1)));
    }
    Some(out)
}
