//! How the binary is linked.
//!
//! Owns one wish to the linker: the addresses that are set right at every start are kept in a dense form. Plainly they take
//! a megabyte, which every worker on every node would read and keep resident.

use std::process::Command;

/// The first glibc whose loader knows the form.
const KNOWN_SINCE: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    // Where this is built tells where it can run: a binary wants a glibc about as new as the one it was linked with.
    if is_linux && glibc().is_some_and(|version| version >= KNOWN_SINCE) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Version of this machine's glibc, from a line such as `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
