//! A headless Chromium of a test's own, driven by the WebDriver protocol: JSON over HTTP, and no library of its own.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use ureq::Agent;

use crate::support::{Shop, wait_until};

/// The name under which WebDriver hands out elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys as WebDriver writes them.
pub const TAB: &str = "\u{E004}";
pub const ENTER: &str = "\u{E007}";
pub const RIGHT: &str = "\u{E014}";

/// A browser with one window; it ends, and leaves nothing, when it is dropped.
pub struct Chromium {
    driver: Child,
    agent: Agent,
    /// Address of the session.
    session: String,
    /// Address of the shop.
    base: String,
    /// Everything that the browser writes.
    home: TempDir,
}

/// An element of the page that was open when it was found.
pub struct Element<'a> {
    browser: &'a Chromium,
    id: String,
}

impl Chromium {
    /// A browser on a telephone's screen.
    pub fn on_a_phone(shop: &Shop) -> Self {
        let browser = Self::open(shop);
        browser.resize(390, 844);
        browser
    }

    /// A browser, with nothing open yet.
    fn open(shop: &Shop) -> Self {
        let home = TempDir::new().unwrap();
        let (driver, port) = start_driver(home.path());
        let agent: Agent = Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(60))).build().into();
        let mut browser = Self { driver, agent, session: format!("http://127.0.0.1:{port}/session"), base: shop.client.base.clone(), home };
        let arguments = [
            "--headless=new",
            // Tests run as root in containers, where Chromium's sandbox does not work and shared memory is small.
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--disable-quic",
            "--disable-sync",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            // A phone that is short of memory does not keep the page that was left: Back makes it anew from what was stored.
            "--disable-features=BackForwardCache",
        ];
        let profile = format!("--user-data-dir={}", browser.home.path().join("profile").display());
        let options = json!({"args": arguments.iter().copied().chain([profile.as_str()]).collect::<Vec<_>>()});
        let wish = json!({"capabilities": {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}});
        let id = browser.call("POST", "", &wish)["sessionId"].as_str().expect("a session").to_owned();
        browser.session = format!("{}/{id}", browser.session);
        browser
    }

    /// Gives the window the size of a telephone's screen, or of another.
    pub fn resize(&self, width: u32, height: u32) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 2, "mobile": true});
        self.call("POST", "/goog/cdp/execute", &json!({"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics}));
    }

    /// Opens an address of the shop, and waits until it is shown.
    pub fn open_page(&self, path: &str) {
        self.call("POST", "/url", &json!({"url": format!("{}{path}", self.base)}));
    }

    pub fn back(&self) {
        self.call("POST", "/back", &json!({}));
    }

    pub fn reload(&self) {
        self.call("POST", "/refresh", &json!({}));
    }

    /// The path of the page that is open.
    pub fn path(&self) -> String {
        let url = self.call("GET", "/url", &Value::Null);
        url.as_str().unwrap().trim_start_matches(&self.base).to_owned()
    }

    /// Waits until a page is open whose path has this in it.
    pub fn wait_for_path(&self, part: &str) {
        wait_until(&format!("a page at {part}"), || self.path().contains(part));
    }

    /// What a script makes of the page; the policy of the page does not bind WebDriver's own.
    pub fn script(&self, script: &str) -> Value {
        self.run(script, json!([]))
    }

    fn run(&self, script: &str, arguments: Value) -> Value {
        self.call("POST", "/execute/sync", &json!({"script": script, "args": arguments}))
    }

    /// What a reader sees.
    pub fn text(&self) -> String {
        self.script("return document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// The element of a CSS selector, as soon as there is one.
    pub fn find(&self, selector: &str) -> Element<'_> {
        self.first(json!({"using": "css selector", "value": selector}))
    }

    /// The button, link or label with these words.
    pub fn named(&self, words: &str) -> Element<'_> {
        let xpath = format!("//*[self::button or self::a or self::label or self::summary][normalize-space()='{words}']");
        self.first(json!({"using": "xpath", "value": xpath}))
    }

    fn first(&self, how: Value) -> Element<'_> {
        let mut found = Value::Null;
        wait_until(&format!("{how} on {}", self.path()), || {
            found = self.call("POST", "/elements", &how)[0].clone();
            !found.is_null()
        });
        Element { browser: self, id: found[ELEMENT].as_str().unwrap().to_owned() }
    }

    /// How many elements a CSS selector has.
    pub fn count(&self, selector: &str) -> usize {
        self.call("POST", "/elements", &json!({"using": "css selector", "value": selector})).as_array().unwrap().len()
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub fn press(&self, keys: &str) {
        let strokes: Vec<Value> =
            keys.chars().flat_map(|key| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]).collect();
        self.call("POST", "/actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]}));
    }

    /// A call of WebDriver that must succeed.
    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut answer = self.try_call(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        assert!(answer["value"]["error"].is_null(), "{method} {path}: {}: {}", answer["value"]["error"], answer["value"]["message"]);
        answer["value"].take()
    }

    fn try_call(&self, method: &str, path: &str, body: &Value) -> Result<Value, ureq::Error> {
        let request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.session));
        let mut response = match method {
            "POST" => self.agent.run(request.header("content-type", "application/json").body(body.to_string()).unwrap())?,
            _ => self.agent.run(request.body(()).unwrap())?,
        };
        let text = response.body_mut().read_to_string()?;
        Ok(serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }
}

impl Element<'_> {
    /// Taps it, and waits for the page that this may lead to.
    pub fn tap(&self) {
        self.call("click", &json!({}));
    }

    /// Taps it twice, as fast as the browser takes it.
    pub fn double_tap(&self) {
        let tap = [json!({"type": "pointerDown", "button": 0}), json!({"type": "pointerUp", "button": 0})];
        let there = json!({"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": {ELEMENT: self.id}});
        let moves: Vec<Value> = [there].into_iter().chain(tap.clone()).chain(tap).collect();
        let pointer = json!({"type": "pointer", "id": "finger", "parameters": {"pointerType": "mouse"}, "actions": moves});
        self.browser.run("arguments[0].scrollIntoView({block: 'center'})", json!([{ELEMENT: self.id}]));
        self.browser.call("POST", "/actions", &json!({"actions": [pointer]}));
    }

    /// Types into it, instead of what it has.
    pub fn write(&self, text: &str) {
        self.call("clear", &json!({}));
        self.call("value", &json!({"text": text}));
    }

    /// Chooses a file.
    pub fn choose(&self, file: &Path) {
        self.call("value", &json!({"text": file.display().to_string()}));
    }

    fn call(&self, what: &str, body: &Value) {
        self.browser.call("POST", &format!("/element/{}/{what}", self.id), body);
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Ends the browser; the driver itself would leave it running.
        let _ = self.try_call("DELETE", "", &Value::Null);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Starts chromedriver on a free port, which it tells.
fn start_driver(home: &Path) -> (Child, u16) {
    assert!(is_there("chromium") && is_there("chromedriver"), "no chromium or no chromedriver on this machine: run `make browser`");
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .envs([("TMPDIR", home), ("HOME", home)])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver starts");
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    let port = loop {
        let line = lines.next().expect("chromedriver ended before it told its port").unwrap();
        if let Some(port) = line.split("started successfully on port ").nth(1) {
            break port.trim_end_matches('.').parse().unwrap();
        }
    };
    std::thread::spawn(move || lines.for_each(drop));
    (driver, port)
}

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).exists())
}
