//! The requests of the studio, by method and path.

/// The longest request about an expression, in bytes.
const LARGEST_REQUEST: usize = 64 * 1024;
/// The largest table and the largest model that are taken, in bytes.
const LARGEST_UPLOAD: usize = 32 << 20;

/// A kind of request. Numbers are those of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    Explore,
    Compare,
    Plot,
    Paths,
    Curves,
    Derive,
    Tour,
    Check,
    Gallery,
    Glossary,
    Catalogue,
    Settings,
    Preview,
    Begin,
    Load,
    Runs,
    Latest(u64),
    Delete(u64),
    Command(u64),
    Inspect(u64),
    Model(u64),
    Report(u64),
    History(u64),
    /// The stream of updates, which hosts carry in their own way.
    Watch(u64),
}

/// The body of a request, with its largest length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    None,
    Json(usize),
    Bytes(usize),
}

/// Why a request has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrouted {
    /// The path is unknown.
    Path,
    /// The path is known, with other methods.
    Method,
}

impl Route {
    /// The route of a method and a path.
    pub fn find(method: &str, path: &str) -> Result<Route, Unrouted> {
        let number = |text: &str| text.parse::<u64>().map_err(|_| Unrouted::Path);
        let parts: Vec<&str> = path.strip_prefix("/api/").ok_or(Unrouted::Path)?.split('/').collect();
        let routes: Vec<(&str, Route)> = match parts[..] {
            ["explore"] => vec![("POST", Route::Explore)],
            ["compare"] => vec![("POST", Route::Compare)],
            ["paths"] => vec![("POST", Route::Paths)],
            ["curves"] => vec![("POST", Route::Curves)],
            ["plot"] => vec![("POST", Route::Plot)],
            ["derive"] => vec![("POST", Route::Derive)],
            ["tour"] => vec![("GET", Route::Tour)],
            ["tour", "check"] => vec![("POST", Route::Check)],
            ["gallery"] => vec![("GET", Route::Gallery)],
            ["glossary"] => vec![("GET", Route::Glossary)],
            ["train"] => vec![("GET", Route::Catalogue)],
            ["train", "settings"] => vec![("POST", Route::Settings)],
            ["train", "preview"] => vec![("POST", Route::Preview)],
            ["models"] => vec![("POST", Route::Load)],
            ["runs"] => vec![("GET", Route::Runs), ("POST", Route::Begin)],
            ["runs", id] => vec![("GET", Route::Latest(number(id)?)), ("DELETE", Route::Delete(number(id)?))],
            ["runs", id, "command"] => vec![("POST", Route::Command(number(id)?))],
            ["runs", id, "inspect"] => vec![("POST", Route::Inspect(number(id)?))],
            ["runs", id, "stream"] => vec![("GET", Route::Watch(number(id)?))],
            ["runs", id, "model"] => vec![("GET", Route::Model(number(id)?))],
            ["runs", id, "report"] => vec![("GET", Route::Report(number(id)?))],
            ["runs", id, "history"] => vec![("GET", Route::History(number(id)?))],
            _ => return Err(Unrouted::Path),
        };
        // Where something can be read, its header can be read alone.
        let method = if method == "HEAD" { "GET" } else { method };
        routes.into_iter().find(|(own, _)| *own == method).map(|(_, route)| route).ok_or(Unrouted::Method)
    }

    pub fn body(self) -> Body {
        match self {
            Route::Explore
            | Route::Compare
            | Route::Plot
            | Route::Paths
            | Route::Curves
            | Route::Derive
            | Route::Check => Body::Json(LARGEST_REQUEST),
            Route::Settings | Route::Preview | Route::Begin | Route::Command(_) | Route::Inspect(_) => {
                Body::Json(LARGEST_UPLOAD)
            }
            Route::Load => Body::Bytes(LARGEST_UPLOAD),
            Route::Tour
            | Route::Gallery
            | Route::Glossary
            | Route::Catalogue
            | Route::Runs
            | Route::Latest(_)
            | Route::Delete(_) => Body::None,
            Route::Model(_) | Route::Report(_) | Route::History(_) | Route::Watch(_) => Body::None,
        }
    }

    /// Whether the answer takes long enough to be computed beside a server rather than in it.
    pub fn is_work(self) -> bool {
        matches!(
            self,
            Route::Explore
                | Route::Compare
                | Route::Plot
                | Route::Paths
                | Route::Gallery
                | Route::Derive
                | Route::Settings
                | Route::Begin
                | Route::Load
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_by_method_and_path() {
        assert_eq!(Route::find("POST", "/api/runs"), Ok(Route::Begin));
        assert_eq!(Route::find("GET", "/api/runs"), Ok(Route::Runs));
        assert_eq!(Route::find("HEAD", "/api/runs/7"), Ok(Route::Latest(7)));
        assert_eq!(Route::find("DELETE", "/api/runs/7"), Ok(Route::Delete(7)));
        assert_eq!(Route::find("GET", "/api/explore"), Err(Unrouted::Method));
        for path in ["/", "/api", "/api/", "/api/runs/x", "/api/runs/-1", "/api/runs/1/", "/api/nothing", "/apirun"] {
            assert_eq!(Route::find("GET", path), Err(Unrouted::Path), "{path}");
        }
    }
}
