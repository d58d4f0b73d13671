//! The stack of the module: nesting is limited by number where text is read, and this holds that many levels, as on the threads of
//! the server.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        println!("cargo::rustc-link-arg-cdylib=-zstack-size=16777216");
    }
}
