//! A browser that a test drives by the DevTools protocol, over a pipe.

use crate::not_run::not_run;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Chromium, controlled over a pipe by the DevTools protocol.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: Option<String>,
    last: u64,
    /// Its events.
    events: Vec<Value>,
}

impl Browser {
    /// `None` without a browser, with a message.
    pub fn start(dir: &Path) -> Option<Browser> {
        let there = |name: &&str| {
            let answer = Command::new(name).arg("--version").output();
            answer.is_ok_and(|output| output.status.success())
        };
        let Some(name) = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(there)
        else {
            not_run("chromium is not installed (scripts/need rust tests)");
            return None;
        };
        // The protocol goes over the descriptors 3 and 4.
        let line = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let profile = format!("--user-data-dir={}", dir.join("profile").display());
        let mut child = Command::new("sh")
            .args(["-c", line, name, "--headless", "--no-sandbox", "--disable-gpu", &profile])
            .args(["--disable-background-networking", "--no-first-run", "--disable-sync"])
            .args(["--remote-debugging-pipe", "about:blank"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        let (session, events) = (None, Vec::new());
        let mut browser = Browser { child, input, output, session, last: 0, events };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// The answer to a call of the protocol.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let message = self.next();
            if message["id"] == json!(self.last) {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn next(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.output.read_until(0, &mut bytes).unwrap();
        bytes.pop();
        serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("the browser is gone: {e}"))
    }

    /// Opens a file, and waits until it is loaded.
    pub fn open(&mut self, file: &Path) {
        self.events.clear();
        let url = format!("file://{}", file.display());
        self.call("Page.navigate", json!({ "url": url }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next();
            self.events.push(event);
        }
    }

    /// The value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let words =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", words);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// All errors, and everything that was fetched except the page itself.
    pub fn complaints(&mut self) -> Vec<String> {
        // Pending events come before the answer.
        self.value("1");
        let complaint = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str()?;
                    let own = url.starts_with("data:,") || params["type"] == "Document";
                    (!own).then(|| format!("asked for {url}"))
                }
                "Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled" => {
                    Some(params.to_string())
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(complaint).collect()
    }

    /// A screen of this width, light or dark.
    pub fn screen(&mut self, width: u32, scheme: &str) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// A mouse event.
    pub fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let buttons = i32::from(kind != "mouseReleased");
        let event = json!({
            "type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1
        });
        self.call("Input.dispatchMouseEvent", event);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
