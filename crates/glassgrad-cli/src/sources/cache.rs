//! The cache directory of downloads.

use std::env;
use std::path::PathBuf;

use glassgrad::error::Error;

/// The folder of a set: below `$XDG_CACHE_HOME`, or below `.cache` in the user's home.
pub(crate) fn folder(name: &str) -> Result<PathBuf, Error> {
    chosen(env::var_os("XDG_CACHE_HOME").map(PathBuf::from), env::home_dir())
        .map(|root| root.join("glassgrad").join(name))
}

fn chosen(cache: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf, Error> {
    // A relative folder is to be ignored, by the rules of that variable.
    let cache = cache.filter(|cache| cache.is_absolute());
    let home = home.filter(|home| home.is_absolute()).map(|home| home.join(".cache"));
    cache.or(home).ok_or_else(|| {
        let error = Error::new("cache", "there is no home to keep files in");
        error.help("set XDG_CACHE_HOME, or name a folder")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_rules_say() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(chosen(path("/c"), path("/home/ada")).unwrap(), PathBuf::from("/c"));
        assert_eq!(chosen(path("c"), path("/home/ada")).unwrap(), PathBuf::from("/home/ada/.cache"));
        assert_eq!(chosen(None, path("/home/ada")).unwrap(), PathBuf::from("/home/ada/.cache"));
        assert!(chosen(None, None).unwrap_err().to_string().contains("XDG_CACHE_HOME"));
    }
}
