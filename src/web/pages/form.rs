//! Forms: what a browser sent, and the same again beside what is wrong with it.

use actix_multipart::Multipart;
use actix_web::{
    HttpRequest,
    web::{Bytes, Payload, Query},
};
use futures_util::{StreamExt, stream};

use crate::{
    app::App,
    input::FieldErrors,
    web::{body, error::Problem},
};

/// A file may take so many times as long to arrive as any other body: it is sent from an office, over a line that is slow upwards.
const FILE_WAITS: u32 = 6;
/// Most parts of a form with a file.
const PARTS_MAX: usize = 20;

/// What a form sent: names and values, in the form's order.
#[derive(Clone, Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the body of a form without files.
    pub(super) async fn read(app: &App, request: &HttpRequest, payload: Payload) -> Result<Self, Problem> {
        const TYPE: &str = "application/x-www-form-urlencoded";
        if !body::is_type(request, TYPE) {
            return Err(body::unsupported(TYPE));
        }
        let bytes = body::read(payload, app.config.body_bytes_max, app.config.body_wait).await?;
        Self::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Result<Self, Problem> {
        // A query string is written in the same way.
        let pairs = std::str::from_utf8(bytes).ok().and_then(|text| Query::<Vec<(String, String)>>::from_query(text).ok());
        let pairs = pairs.ok_or_else(|| unreadable("is not one that a browser would send"))?.into_inner();
        // What is not UTF-8 was replaced; no browser sends any, and a name is not guessed.
        if pairs.iter().any(|(_, value)| value.contains(char::REPLACEMENT_CHARACTER)) {
            return Err(unreadable("has text that is not UTF-8"));
        }
        Ok(Self(pairs))
    }

    /// The first value of that name, without the spaces around it; empty if there is none.
    pub(super) fn text(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// The same, as it was sent.
    pub(super) fn raw(&self, name: &str) -> &str {
        self.0.iter().find(|(sent, _)| sent == name).map_or("", |(_, value)| value)
    }

    /// The value, unless it is empty.
    pub(super) fn filled(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Whether a checkbox of that name is ticked.
    pub(super) fn ticked(&self, name: &str) -> bool {
        matches!(self.text(name), "true" | "on" | "1" | "yes")
    }

    /// A whole number; one that is none becomes -1, which no field takes, so that it is refused and not taken for absent.
    pub(super) fn number(&self, name: &str) -> Option<i64> {
        self.filled(name).map(|text| text.parse().unwrap_or(-1))
    }

    /// Every name with its value.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The form with that field, instead of what it had.
    pub(super) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.0.retain(|(sent, _)| sent != name);
        self.0.push((name.to_owned(), value.into()));
        self
    }
}

/// A form that may bring a file.
pub(super) struct Upload {
    /// The fields.
    pub(super) form: Form,
    /// The file, if one was chosen that is not empty.
    pub(super) file: Option<Bytes>,
}

impl Upload {
    /// Reads a form with or without a file in it.
    pub(super) async fn read(app: &App, request: &HttpRequest, payload: Payload) -> Result<Self, Problem> {
        if !body::is_type(request, "multipart/form-data") {
            return Ok(Self { form: Form::read(app, request, payload).await?, file: None });
        }
        let bytes_max = app.config.file_bytes_max + app.config.body_bytes_max;
        let body = body::read(payload, bytes_max, FILE_WAITS * app.config.body_wait).await?;
        Self::parse(request, body).await
    }

    async fn parse(request: &HttpRequest, body: Bytes) -> Result<Self, Problem> {
        let bytes_max = body.len();
        let mut parts = Multipart::new(request.headers(), stream::once(async { Ok(body) }));
        let mut upload = Self { form: Form::default(), file: None };
        while let Some(part) = parts.next().await {
            let mut part = part.map_err(|_| unreadable("broke off, or is not one that a browser would send"))?;
            let name = part.name().unwrap_or_default().to_owned();
            let is_file = part.content_disposition().is_some_and(|disposition| disposition.get_filename().is_some());
            let value = part.bytes(bytes_max).await;
            let value = value.ok().and_then(Result::ok).ok_or_else(|| unreadable("broke off in the middle"))?;
            if is_file {
                upload.file = upload.file.or(Some(value).filter(|value| !value.is_empty()));
            } else {
                let text = String::from_utf8(value.to_vec()).map_err(|_| unreadable("has text that is not UTF-8"))?;
                upload.form.0.push((name, text));
            }
            if upload.form.0.len() > PARTS_MAX {
                return Err(unreadable("has more fields than the page has"));
            }
        }
        Ok(upload)
    }
}

fn unreadable(message: &str) -> Problem {
    Problem::invalid(&FieldErrors::one("the form", message))
}

/// A form as it is shown: its values, and what was wrong with them.
#[derive(Debug, Default)]
pub(super) struct Filled {
    values: Form,
    errors: FieldErrors,
}

impl Filled {
    pub(super) fn new(values: Form, errors: FieldErrors) -> Self {
        Self { values, errors }
    }

    /// What stands in the field.
    pub(super) fn value(&self, name: &str) -> &str {
        self.values.text(name)
    }

    /// The same, spaces and all.
    pub(super) fn raw(&self, name: &str) -> &str {
        self.values.raw(name)
    }

    /// Whether the field is a ticked box.
    pub(super) fn ticked(&self, name: &str) -> bool {
        self.values.ticked(name)
    }

    /// Whether anything is wrong.
    pub(super) fn is_wrong(&self) -> bool {
        !self.errors.as_slice().is_empty()
    }

    /// What is wrong with the field, as a sentence that begins with its label; empty if nothing is.
    pub(super) fn error(&self, name: &str, label: &str) -> String {
        self.errors.of(name).map_or_else(String::new, |message| sentence(label, self.value(name), message))
    }

    /// What is wrong with fields that are not in `shown`.
    pub(super) fn other_errors(&self, shown: &[&str]) -> Vec<String> {
        let others = self.errors.as_slice().iter().filter(|error| !shown.contains(&error.field.as_str()));
        others.map(|error| format!("{} {}.", error.field, error.message)).collect()
    }
}

/// "LABEL MESSAGE." Of a field that was left empty it is enough to say that.
pub(super) fn sentence(label: &str, value: &str, message: &str) -> String {
    if value.trim().is_empty() { format!("{label} is missing.") } else { format!("{label} {message}.") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_as_browsers_write_it() {
        let form = Form::parse(b"name=Ada+%26+Bob&email=&email=second&n=12&wrong=1.5&show=on").unwrap();
        assert_eq!(form.text("name"), "Ada & Bob");
        assert_eq!(form.text("email"), "");
        assert_eq!(form.filled("email"), None);
        assert_eq!((form.number("n"), form.number("wrong"), form.number("absent")), (Some(12), Some(-1), None));
        assert!(form.ticked("show") && !form.ticked("absent"));
        assert!(Form::parse(b"\xff=\xfe").is_err());
        assert!(Form::parse(b"name=caf%e9").is_err());
        assert_eq!(Form::parse(b"").unwrap().text("name"), "");
    }

    #[test]
    fn what_is_wrong_reads_as_a_sentence() {
        assert_eq!(sentence("Name", " ", "must be one line"), "Name is missing.");
        assert_eq!(sentence("Quantity", "x", "must be a whole number"), "Quantity must be a whole number.");
    }
}
