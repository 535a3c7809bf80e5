//! Names of namespaces, as Kubernetes allows them.
//!
//! Owns the sentence about a name that breaks it. Must not ask the cluster.

use shipshape_engine::syntax;

/// Longest name of a namespace.
const LONGEST: usize = 63;

/// The name, if a namespace can have it; else what would be right.
pub(crate) fn checked(name: &str) -> Result<String, String> {
    syntax::is_dns_label(name).then(|| name.to_owned()).ok_or_else(|| {
        format!(
            "{name:?} is not a name of a namespace; right would be up to {LONGEST} lower-case letters, \
             digits and '-', with a letter or digit at both ends, such as shipshape-system"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_kubernetes_takes_is_a_namespace() {
        let longest = "a".repeat(LONGEST);
        for right in ["default", "a", "7", "kube-system", "a--b", &longest] {
            assert_eq!(checked(right).as_deref(), Ok(right));
        }
        let too_long = "a".repeat(LONGEST + 1);
        for wrong in [
            "", "-a", "a-", "A", "a.b", "a_b", "a/b", "a b", "\u{e4}", &too_long,
        ] {
            let told = checked(wrong).unwrap_err();
            assert!(told.contains("such as shipshape-system"), "{told}");
        }
    }
}
