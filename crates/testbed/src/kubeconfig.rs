//! Kubeconfig files as JSON, which every reader of YAML accepts.
//!
//! Owns the file's shape and nothing else. Called by the harness.

use serde_json::{Value, json};

use crate::pki::Pair;

/// A kubeconfig with everything inlined, so that it can be copied anywhere on the machine.
pub(crate) fn render(server: &str, ca: &str, user: &Pair) -> Value {
    let user = json!({
        "client-certificate-data": base64(user.certificate.as_bytes()),
        "client-key-data": base64(user.key.as_bytes()),
    });
    of_user(server, ca, &user)
}

/// The same, for whoever has this token.
pub(crate) fn with_token(server: &str, ca: &str, token: &str) -> Value {
    of_user(server, ca, &json!({ "token": token }))
}

fn of_user(server: &str, ca: &str, user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": {
            "server": server,
            "certificate-authority-data": base64(ca.as_bytes()),
        }}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user"}}],
        "current-context": "testbed",
    })
}

/// A kubeconfig for a server that asks for no credentials.
pub(crate) fn open(server: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": {"server": server}}],
        "users": [{"name": "user", "user": {}}],
        "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "user"}}],
        "current-context": "testbed",
    })
}

/// Standard base64 with padding: too small a need for a dependency.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk
            .iter()
            .fold(0u32, |sum, byte| (sum << 8) | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let symbol = ALPHABET.get((group >> (18 - 6 * place)) as usize & 63);
            text.push(match symbol {
                Some(symbol) if place <= chunk.len() => char::from(*symbol),
                Some(_) | None => '=',
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_of_each_remainder_is_padded() {
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"f"), "Zg==");
        assert_eq!(base64(b"fo"), "Zm8=");
        assert_eq!(base64(b"foo"), "Zm9v");
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }
}
