//! What names, labels and images of Kubernetes look like.
//!
//! Owns the rules that more than one reader of settings needs. Must not build sentences: who asks knows the key and
//! what would be right there.

/// Longest part of a DNS name, and longest value of a label.
const LABEL_MAX: usize = 63;
/// Longest DNS name.
const SUBDOMAIN_MAX: usize = 253;
/// Longest tag of an image.
const TAG_MAX: usize = 128;

fn is_small(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether a text has these characters alone, and is not empty, with a letter or digit at both ends.
fn is_word(text: &str, is_end: fn(u8) -> bool, between: &[u8]) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|byte| is_end(*byte))
        && bytes.last().is_some_and(|byte| is_end(*byte))
        && bytes
            .iter()
            .all(|byte| is_end(*byte) || between.contains(byte))
}

/// Names of namespaces and containers.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LABEL_MAX && is_word(text, is_small, b"-")
}

/// Names of most other objects.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_MAX && text.split('.').all(|part| is_word(part, is_small, b"-"))
}

/// Keys of labels and taints, and names of resources.
pub fn is_label_key(text: &str) -> bool {
    let (domain, name) = match text.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, text),
    };
    domain.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Values of labels and taints; empty ones too.
pub fn is_label_value(text: &str) -> bool {
    let is_end = |byte: u8| byte.is_ascii_alphanumeric();
    text.is_empty() || (text.len() <= LABEL_MAX && is_word(text, is_end, b"-_."))
}

/// An image's registry and name, without its tag.
pub fn is_repository(text: &str) -> bool {
    let bare = text.strip_suffix("@sha256").unwrap_or(text);
    let path = match bare.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
            if !is_registry(first) {
                return false;
            }
            rest
        }
        _ => bare,
    };
    path.split('/').all(|part| is_word(part, is_small, b"-_."))
}

fn is_registry(text: &str) -> bool {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "443"));
    let is_end = |byte: u8| byte.is_ascii_alphanumeric();
    let is_name = host.split('.').all(|part| is_word(part, is_end, b"-"));
    let is_v6 = host.starts_with('[') && host.ends_with(']');
    (is_name || is_v6) && port.parse::<u16>().is_ok()
}

/// An image's tag.
pub fn is_tag(text: &str) -> bool {
    let is_inside = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    text.len() <= TAG_MAX
        && text.bytes().all(is_inside)
        && text
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(right: &[&str], wrong: &[&str], rule: fn(&str) -> bool) {
        for text in right {
            assert!(rule(text), "{text:?} is right");
        }
        for text in wrong {
            assert!(!rule(text), "{text:?} is wrong");
        }
    }

    #[test]
    fn names_are_those_that_the_server_takes() {
        let (most, more) = ("a".repeat(63), "a".repeat(64));
        let wrong = ["", "-a", "a-", "A", "a.b", "a_b", "a b", "\u{e4}", &more];
        all(
            &["a", "7", "kube-system", "a--b", &most],
            &wrong,
            is_dns_label,
        );
        let wrong = ["", ".", "a..b", "a.", "A.b", "a_b"];
        all(&["a", "a.b", "a-1.b"], &wrong, is_subdomain);
    }

    #[test]
    fn labels_are_those_that_the_server_takes() {
        let more = format!("a/{}", "a".repeat(64));
        let wrong = ["", "a b", "a/", "/a", "a/b/c", "A/b", "a/-b", &more];
        all(
            &["a", "node-ready/verified", "a.b/C_d"],
            &wrong,
            is_label_key,
        );
        all(&["", "true", "a.B_c"], &["a b", "-a", "a/"], is_label_value);
    }

    #[test]
    fn images_are_those_that_a_kubelet_can_pull() {
        let right = [
            "shipshape",
            "a/b__c",
            "localhost/a",
            "Registry.example:5000/a/b",
            "10.0.0.1:5000/a",
            "a/b@sha256",
        ];
        let wrong = ["", "S S", "Shipshape", "a//b", "a/", "a:5000", "r.e:x/a"];
        all(&right, &wrong, is_repository);
        all(
            &["1", "v1.2-rc_3", "_x"],
            &["", ":1", "a b", ".1", "-1"],
            is_tag,
        );
    }
}
