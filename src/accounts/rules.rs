//! Pure rules of accounts.

use crate::{
    email::{self, Email},
    input::{FieldErrors, line_of_text},
};

/// Shortest password, in characters. Length is what makes a password strong, so nothing else is asked.
pub const PASSWORD_MIN: usize = 12;
/// Longest password, in bytes: hashing a book would keep the server busy.
pub const PASSWORD_MAX: usize = 256;
/// Longest name of a partner, in characters.
const PARTNER_NAME_MAX: usize = 80;

/// An admin as somebody sent it.
#[derive(Clone, Default)]
pub struct AdminInput {
    /// E-mail address.
    pub email: String,
    /// Password.
    pub password: String,
}

/// An admin that may be stored.
pub struct NewAdmin {
    /// E-mail address.
    pub email: Email,
    /// Password, as typed.
    pub password: String,
}

impl AdminInput {
    /// Checks both fields.
    ///
    /// # Errors
    /// All that is wrong, by field.
    pub fn parse(&self) -> Result<NewAdmin, FieldErrors> {
        let mut errors = FieldErrors::new();
        let email = errors.check("email", Email::parse(&self.email), email::EXPECTED);
        let long_enough = self.password.chars().count() >= PASSWORD_MIN && self.password.len() <= PASSWORD_MAX;
        let password = errors.check("password", long_enough.then(|| self.password.clone()), "must have 12 characters or more, at most 256");
        match (email, password) {
            (Some(email), Some(password)) => Ok(NewAdmin { email, password }),
            _ => Err(errors),
        }
    }
}

/// Reads a partner's name.
///
/// # Errors
/// What is wrong with it.
pub fn partner_name(name: &str) -> Result<String, FieldErrors> {
    line_of_text(name, PARTNER_NAME_MAX).ok_or_else(|| FieldErrors::one("name", "must be one line of 1 to 80 characters"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_long_enough_or_refused() {
        let parse = |password: &str| AdminInput { email: "ada@example.org".into(), password: password.into() }.parse();
        assert!(parse("correct horse").is_ok());
        assert!(parse("short").is_err_and(|errors| errors.of("password").is_some()));
        assert!(parse(&"x".repeat(257)).is_err());
    }
}
