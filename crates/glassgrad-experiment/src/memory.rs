//! Available memory, checked before large allocations: a failed allocation aborts the program.

use std::fs;

use crate::failure::Failure;

/// Refuses to exceed the available memory. The message says what needs it and what to change.
pub fn check(needed: u64, message: impl FnOnce() -> String) -> Result<(), Failure> {
    match available() {
        Some(available) if needed > available => Err(Failure::Input(format!(
            "{}\n  = help: at least {} of memory are needed, and {} can be had",
            message(),
            shown(needed),
            shown(available)
        ))),
        // Where the available memory is unknown, only sizes beyond any machine are refused.
        None if needed > 1 << 46 => Err(Failure::Input(format!("{}: that is {} of memory", message(), shown(needed)))),
        _ => Ok(()),
    }
}

/// A number of bytes as people read it.
pub fn shown(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{bytes} bytes"),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        1_000_000_000..1_000_000_000_000_000 => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{:.1e} GB", bytes as f64 / 1e9),
    }
}

/// The bytes that this process can still get: by the machine, by its control group, and by the limit of its address space.
/// `None` where the system does not report it.
fn available() -> Option<u64> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let of_machine = || {
        let text = read("/proc/meminfo");
        Some(field(&text, "MemAvailable:")?.saturating_add(field(&text, "SwapFree:").unwrap_or(0)) * 1024)
    };
    let of_group = || {
        let number = |name: &str| read(&format!("/sys/fs/cgroup/{name}")).trim().parse::<u64>().ok();
        Some(number("memory.max")?.saturating_sub(number("memory.current")?))
    };
    let of_process = || {
        let limit = field(&read("/proc/self/limits"), "Max address space")?;
        Some(limit.saturating_sub(field(&read("/proc/self/status"), "VmSize:")? * 1024))
    };
    [of_machine(), of_group(), of_process()].into_iter().flatten().min()
}

/// The number behind a name in a text of lines.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let text = "MemTotal: 100 kB\nMemAvailable:   42 kB\nMax address space         unlimited  unlimited bytes\n";
        assert_eq!((field(text, "MemAvailable:"), field(text, "Max address space")), (Some(42), None));
        assert_eq!(field(text, "SwapFree:"), None);
    }

    #[test]
    fn what_is_too_much_is_refused_with_both_sizes() {
        assert!(check(1 << 20, || "a little".to_owned()).is_ok());
        let message = check(u64::MAX, || "everything".to_owned()).expect_err("too much").to_string();
        assert!(message.starts_with("everything") && message.contains("GB"), "{message}");
        assert_eq!(
            (shown(999), shown(1_500_000), shown(80_000_000_000)),
            ("999 bytes".into(), "1.5 MB".into(), "80.0 GB".into())
        );
    }
}
