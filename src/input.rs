//! What is wrong with what somebody sent, in words for them.

use std::fmt;

use serde::Serialize;

/// One thing that is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The field as the sender named it: `items[0].quantity`, `starts_at`.
    pub field: String,
    /// What it must be, so that "FIELD MESSAGE" reads as a sentence.
    pub message: String,
}

/// Everything that is wrong with one request, gathered so that it is told at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    /// Starts with nothing wrong.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Just one thing wrong.
    #[must_use]
    pub fn one(field: impl Into<String>, message: impl Into<String>) -> Self {
        let mut errors = Self::new();
        errors.add(field, message);
        errors
    }

    /// Adds one thing that is wrong.
    pub fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(FieldError { field: field.into(), message: message.into() });
    }

    /// Keeps a parsed value, or notes that `field` was not what `message` says.
    pub fn check<T>(&mut self, field: &str, value: Option<T>, message: &str) -> Option<T> {
        if value.is_none() {
            self.add(field, message);
        }
        value
    }

    /// `Ok` if nothing was wrong.
    ///
    /// # Errors
    /// Itself, if anything was.
    pub fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }

    /// What is wrong, in the order in which it was found.
    #[must_use]
    pub fn as_slice(&self) -> &[FieldError] {
        &self.0
    }

    /// The first message for `field`, for the place beside its input.
    #[must_use]
    pub fn of(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|error| error.field == field).map(|error| error.message.as_str())
    }
}

impl fmt::Display for FieldErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, error) in self.0.iter().enumerate() {
            if place > 0 {
                out.write_str("; ")?;
            }
            write!(out, "{} {}", error.field, error.message)?;
        }
        Ok(())
    }
}

/// A line of text that a person wrote: trimmed, of 1 to `max_chars` characters, without control characters.
#[must_use]
pub fn line_of_text(text: &str, max_chars: usize) -> Option<String> {
    let text = text.trim();
    let fits = (1..=max_chars).contains(&text.chars().count());
    (fits && !text.chars().any(char::is_control)).then(|| text.to_owned())
}
