//! A client that neither follows redirects nor takes an error status for a failure.

use std::time::Duration;

use serde_json::Value;
use ureq::Agent;

/// A client of one server, with a partner's key.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    pub base: String,
    pub key: Option<String>,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub body: String,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("not JSON: {error}: {self:?}"))
    }

    /// A header's value, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The problem's stable code.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Client {
    /// A client of the server at `base`, like `http://127.0.0.1:8080`.
    pub fn new(base: &str) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(Duration::from_secs(60)))
            .max_idle_connections_per_host(64)
            .build();
        Self { agent: config.into(), base: base.to_owned(), key: None }
    }

    /// The same with a partner's key.
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self.clone() }
    }

    /// Sends a request; `None` if no answer came.
    pub fn try_send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Reply> {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let sent = if body.is_empty() && method == "GET" {
            self.agent.run(request.body(()).unwrap())
        } else {
            self.agent.run(request.body(body).unwrap())
        };
        let mut response = sent.ok()?;
        let body = response.body_mut().read_to_string().ok()?;
        Some(Reply { status: response.status().as_u16(), headers: response.headers().clone(), body })
    }

    /// Sends a request that must be answered.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.try_send(method, path, headers, body).unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    pub fn patch(&self, path: &str, body: &Value) -> Reply {
        self.send("PATCH", path, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    /// Posts under an Idempotency-Key.
    pub fn post_keyed(&self, path: &str, key: &str, body: &Value) -> Reply {
        self.send("POST", path, &[("content-type", "application/json"), ("idempotency-key", key)], body.to_string().as_bytes())
    }

    /// Posts a form as a browser does.
    pub fn submit(&self, path: &str, fields: &[(&str, &str)], cookie: Option<&str>) -> Reply {
        let body: String = fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect::<Vec<_>>().join("&");
        let mut headers = vec![("content-type", "application/x-www-form-urlencoded")];
        headers.extend(cookie.map(|cookie| ("cookie", cookie)));
        self.send("POST", path, &headers, body.as_bytes())
    }

    /// Loads a CSV file.
    pub fn post_csv(&self, path: &str, csv: &[u8]) -> Reply {
        self.send("POST", path, &[("content-type", "text/csv")], csv)
    }
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
