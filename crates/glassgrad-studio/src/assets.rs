//! The files of the page, in the program itself.

/// A file: its path, its type, its bytes.
pub type File = (&'static str, &'static str, &'static [u8]);

macro_rules! file {
    ($path:literal, $kind:literal) => {
        (concat!("/", $path), $kind, include_bytes!(concat!("../page/", $path)))
    };
}

/// All files of the page.
pub const FILES: &[File] = &[
    ("/", "text/html; charset=utf-8", include_bytes!("../page/index.html")),
    file!("icon.svg", "image/svg+xml"),
    file!("css/studio.css", "text/css; charset=utf-8"),
    file!("css/train.css", "text/css; charset=utf-8"),
    file!("fonts/LICENSE.txt", "text/plain; charset=utf-8"),
    file!("fonts/math.woff2", "font/woff2"),
    file!("js/api.js", "text/javascript; charset=utf-8"),
    file!("js/chart.js", "text/javascript; charset=utf-8"),
    file!("js/compare.js", "text/javascript; charset=utf-8"),
    file!("js/dom.js", "text/javascript; charset=utf-8"),
    file!("js/draw.js", "text/javascript; charset=utf-8"),
    file!("js/explore.js", "text/javascript; charset=utf-8"),
    file!("js/fold.js", "text/javascript; charset=utf-8"),
    file!("js/gallery.js", "text/javascript; charset=utf-8"),
    file!("js/glossary.js", "text/javascript; charset=utf-8"),
    file!("js/graph.js", "text/javascript; charset=utf-8"),
    file!("js/host.js", "text/javascript; charset=utf-8"),
    file!("js/main.js", "text/javascript; charset=utf-8"),
    file!("js/matrix.js", "text/javascript; charset=utf-8"),
    file!("js/paths.js", "text/javascript; charset=utf-8"),
    file!("js/plan.js", "text/javascript; charset=utf-8"),
    file!("js/plots.js", "text/javascript; charset=utf-8"),
    file!("js/state.js", "text/javascript; charset=utf-8"),
    file!("js/steps.js", "text/javascript; charset=utf-8"),
    file!("js/tables.js", "text/javascript; charset=utf-8"),
    file!("js/theme.js", "text/javascript; charset=utf-8"),
    file!("js/tour.js", "text/javascript; charset=utf-8"),
    file!("js/train.js", "text/javascript; charset=utf-8"),
    file!("js/train/form.js", "text/javascript; charset=utf-8"),
    file!("js/train/inside.js", "text/javascript; charset=utf-8"),
    file!("js/train/paint.js", "text/javascript; charset=utf-8"),
    file!("js/train/plot.js", "text/javascript; charset=utf-8"),
    file!("js/train/preview.js", "text/javascript; charset=utf-8"),
    file!("js/train/run.js", "text/javascript; charset=utf-8"),
    file!("js/train/views.js", "text/javascript; charset=utf-8"),
    file!("js/values.js", "text/javascript; charset=utf-8"),
    file!("js/zoom.js", "text/javascript; charset=utf-8"),
];

/// The file at a path.
pub fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|(own, ..)| *own == path)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::FILES;

    fn below(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn the_page_is_small_and_whole() {
        let bytes: usize = FILES.iter().map(|(.., bytes)| bytes.len()).sum();
        assert!(bytes < 300_000, "the page has {bytes} bytes");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        assert_eq!(below(&folder).len(), FILES.len(), "a file of the folder is not served");
    }

    #[test]
    fn the_page_requests_no_other_origin() {
        // The licence of the font names its source.
        for (path, _, bytes) in FILES.iter().filter(|(path, ..)| !path.starts_with("/fonts/")) {
            let text = std::str::from_utf8(bytes).expect("a text");
            let foreign = text.replace("http://www.w3.org/", "");
            assert!(!foreign.contains("http://") && !foreign.contains("https://"), "{path} names another place");
        }
    }
}
