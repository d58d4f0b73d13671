//! The golden cases of the library's operations as a WebAssembly module: `tools/wasm` builds the tests of this package for a target
//! with a system interface (WASI) and runs them in Node.js. A package of its own, since the development dependencies of the
//! library do not exist for WebAssembly.
