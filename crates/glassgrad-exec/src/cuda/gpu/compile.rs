//! Kernels as machine code: compiled by NVRTC, and cached on disk.

use std::ffi::{CStr, CString};

use cudarc::nvrtc::{result as nvrtc, sys as nvrtc_sys};

use super::cache;

/// A kernel as machine code: from the cache on disk, or compiled.
pub(super) fn machine_code(text: &str, (major, minor): (usize, usize)) -> Result<Vec<u8>, String> {
    let (mut first, mut second) = (0, 0);
    // SAFETY: both numbers are written by the function.
    unsafe { nvrtc_sys::nvrtcVersion(&raw mut first, &raw mut second) };
    let key = cache::hash_of(&format!("{major}.{minor} {first}.{second}\n{text}"));
    if let Some(code) = cache::load(key, "cubin") {
        return Ok(code);
    }
    let code = compiled(text, &format!("--gpu-architecture=sm_{major}{minor}"))?;
    cache::store(key, "cubin", &code);
    Ok(code)
}

/// Compiles a kernel.
pub(in super::super) fn compiled(text: &str, architecture: &str) -> Result<Vec<u8>, String> {
    let source = CString::new(text).map_err(|error| error.to_string())?;
    let program = nvrtc::create_program(&source, Some(c"glassgrad.cu")).map_err(|error| error.to_string())?;
    let options = ["--std=c++17", "--fmad=false", architecture];
    // SAFETY: the program was just created, and its text outlives it.
    let done = unsafe { nvrtc::compile_program(program, &options) };
    let code = match done {
        Ok(()) => {
            let mut size = 0;
            // SAFETY: the program was compiled for an architecture, so that there is machine code; the second call writes
            // as many bytes as the first one names.
            unsafe {
                nvrtc_sys::nvrtcGetCUBINSize(program, &raw mut size).result().map_err(|error| error.to_string())?;
                let mut code = vec![0_u8; size];
                nvrtc_sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast())
                    .result()
                    .map_err(|error| error.to_string())?;
                Ok(code)
            }
        }
        Err(error) => {
            // SAFETY: the program was created; the log ends with a zero.
            let log = unsafe { nvrtc::get_program_log(program) }.unwrap_or_default();
            let log: Vec<u8> = log.iter().map(|byte| *byte as u8).collect();
            let log = CStr::from_bytes_until_nul(&log).map_or_else(|_| "no log".into(), CStr::to_string_lossy);
            Err(format!("a kernel does not compile ({error}):\n{log}"))
        }
    };
    // SAFETY: nothing uses the program any more.
    let _ = unsafe { nvrtc::destroy_program(program) };
    code
}
