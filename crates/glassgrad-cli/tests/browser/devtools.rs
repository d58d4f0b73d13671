//! A Chromium without a window, spoken to in the DevTools protocol over a pair of pipes.
//!
//! With `--remote-debugging-pipe` the browser reads commands from file descriptor 3 and writes answers to 4, each a JSON
//! object that ends with a zero byte. A shell hands it its standard input and output as these, so that nothing but the
//! standard library is needed: no port, no web socket, no driver.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// No answer takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// The browser's path, or `None` after a message that the test is skipped.
pub(crate) fn chromium() -> Option<PathBuf> {
    let is_required = std::env::var("GLASSGRAD_BROWSER").is_ok_and(|value| value == "required");
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/chromium");
    let found = Command::new(&tool).args(is_required.then_some("--install")).output();
    match found {
        Ok(output) if output.status.success() => Some(String::from_utf8_lossy(&output.stdout).trim().into()),
        other => {
            let why = match other {
                Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
                Err(error) => format!("{}: {error}", tool.display()),
            };
            assert!(!is_required, "GLASSGRAD_BROWSER=required, and there is no browser: {why}");
            // Tests that pass have their output kept from people; this is written past it.
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "SKIPPED: pages are not looked at: {why}");
            None
        }
    }
}

/// A running browser with one page.
pub(crate) struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    number: u64,
    /// What has happened on the page and was not an answer.
    events: Vec<Value>,
    profile: PathBuf,
}

/// What a page was like while it loaded.
pub(crate) struct Visit {
    /// What it or the browser had to say: messages of the console, exceptions, violations of its policy.
    pub(crate) complaints: Vec<String>,
    /// What was asked for, but the page itself and what it holds.
    pub(crate) requests: Vec<String>,
}

impl Browser {
    /// Starts a browser.
    pub(crate) fn start(program: &Path, profile: &Path) -> Browser {
        let _ = std::fs::remove_dir_all(profile);
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(program)
            .args(["--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-quic"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell starts");
        let commands = process.stdin.take().expect("a pipe to the browser");
        let mut answers = BufReader::new(process.stdout.take().expect("a pipe from the browser"));
        let (send, messages) = channel();
        std::thread::spawn(move || {
            loop {
                let mut bytes = Vec::new();
                match answers.read_until(0, &mut bytes) {
                    Ok(1..) if bytes.pop() == Some(0) => {}
                    _ => return,
                }
                let Ok(message) = serde_json::from_slice(&bytes) else { return };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let profile = profile.to_owned();
        let mut browser =
            Browser { process, commands, messages, session: None, number: 0, events: Vec::new(), profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Asks for something, and waits for the answer.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.number += 1;
        let mut command = json!({ "id": self.number, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = session.as_str().into();
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).expect("the browser listens");
        self.commands.flush().expect("the browser listens");
        let number = self.number;
        let answer = self.wait(method, |message| message["id"] == number);
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// Reads until something comes; events that come before it are kept.
    fn wait(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            let message = self.messages.recv_timeout(left).unwrap_or_else(|error| panic!("{what}: no answer: {error}"));
            if is_it(&message) {
                return message;
            }
            self.events.push(message);
        }
    }

    /// Opens an address in a window of this width in pixels, in the light or the dark color scheme.
    pub(crate) fn visit(&mut self, address: &str, width: u32, scheme: &str) -> Visit {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
        self.events.clear();
        let answer = self.call("Page.navigate", json!({ "url": address }));
        assert!(answer["errorText"].is_null(), "{address}: {answer}");
        if !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let loaded = self.wait("Page.loadEventFired", |message| message["method"] == "Page.loadEventFired");
            self.events.push(loaded);
        }
        // What a page complains about while it is laid out has come before the answer to this.
        self.evaluate("document.documentElement.getBoundingClientRect().width");
        let asked = self.events_of("Network.requestWillBeSent");
        let asked = asked.filter_map(|event| event["params"]["request"]["url"].as_str());
        let is_foreign = |url: &&str| !url.starts_with("data:") && *url != address;
        Visit { requests: asked.filter(is_foreign).map(str::to_owned).collect(), complaints: self.complaints() }
    }

    fn events_of(&self, method: &'static str) -> impl Iterator<Item = &Value> {
        self.events.iter().filter(move |event| event["method"] == method)
    }

    /// What the page has complained about since it was opened.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let methods = ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"];
        let spoken = methods.into_iter().flat_map(|method| self.events_of(method));
        spoken.map(|event| event["params"].to_string()).collect()
    }

    /// Presses a key, as a keyboard does.
    #[allow(dead_code, reason = "pages that are only read need no keys")]
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, None),
            "Enter" => (13, Some("\r")),
            "End" => (35, None),
            "Home" => (36, None),
            "ArrowLeft" => (37, None),
            "ArrowUp" => (38, None),
            "ArrowRight" => (39, None),
            "ArrowDown" => (40, None),
            "Backspace" => (8, None),
            // Signs have no key code of their own: theirs in ASCII are those of other keys.
            letter => {
                let code = letter.to_uppercase().bytes().next().filter(u8::is_ascii_alphanumeric);
                (code.map_or(0, u32::from), Some(letter))
            }
        };
        let mut event = json!({ "type": "keyDown", "key": key, "windowsVirtualKeyCode": code });
        if let Some(text) = text {
            event["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", event);
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }));
    }

    /// Waits until an expression on the page is true.
    #[allow(dead_code, reason = "pages that are only read are whole when they are loaded")]
    pub(crate) fn until(&mut self, expression: &str) {
        let begin = Instant::now();
        while self.evaluate(expression) != true {
            assert!(begin.elapsed() < PATIENCE, "it never came to be: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The value of an expression on the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
