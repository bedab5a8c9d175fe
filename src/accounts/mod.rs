//! Who may do what: admins and their sessions, partners and their keys.
//!
//! Passwords are stored as Argon2id. Session cookies and partner keys are random, so a plain SHA-256 of them is stored, and neither is
//! ever shown a second time.

mod key_ring;
mod queries;
pub mod rules;

use std::{collections::HashMap, str::FromStr, sync::OnceLock};

use argon2::{
    Argon2,
    password_hash::{PasswordHasher, PasswordVerifier, phc::PasswordHash},
};
use chrono::{DateTime, TimeDelta, Utc};
use diesel::PgConnection;

use crate::{
    db::{DbCause, DbError, transaction},
    email::Email,
    ids::{AdminId, PartnerId, digest, new_secret},
    input::FieldErrors,
};
pub use key_ring::KeyRing;
pub use rules::{AdminInput, NewAdmin};

/// How long an admin stays logged in.
pub const SESSION_HOURS: i64 = 12;
/// What a partner's key begins with, so that one that leaked is recognised.
const KEY_PREFIX: &str = "bxo_";

/// What a partner's key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// See events, availability and the partner's own orders.
    Read,
    /// Buy.
    Sell,
    /// Create events, load inventory, see all orders.
    Admin,
}

impl Scope {
    const ALL: [Self; 3] = [Self::Read, Self::Sell, Self::Admin];

    /// Its name on the command line and in errors.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Sell => "sell",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|scope| scope.name() == name).ok_or_else(|| "must be read, sell or admin".to_owned())
    }
}

/// A partner, as its key names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partner {
    /// Its id.
    pub id: PartnerId,
    /// Its name.
    pub name: String,
    /// What the key may do.
    pub scopes: Vec<Scope>,
}

impl Partner {
    /// Whether the key may do that.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}

/// A logged-in admin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSession {
    /// Who.
    pub admin: AdminId,
    /// Their address.
    pub email: String,
    /// What each form of this session must send back.
    pub csrf_token: String,
}

/// Why an operation on accounts was refused.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The input is wrong.
    #[error("{0}")]
    Invalid(FieldErrors),
    /// No such address, or not its password; which of the two is not told.
    #[error("the e-mail address or the password is wrong")]
    WrongLogin,
    /// There is an admin already, so the one-time link is spent.
    #[error("there is an admin already")]
    AlreadySetUp,
    /// The password could not be hashed.
    #[error("the password could not be hashed: {0}")]
    Hash(String),
    /// The database failed.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl DbCause for AccountError {
    fn db_cause(&self) -> Option<&DbError> {
        match self {
            Self::Db(error) => Some(error),
            _ => None,
        }
    }
}

/// Makes an admin, or gives an existing one a new password and ends their sessions.
///
/// # Errors
/// The database's.
pub fn set_admin(conn: &mut PgConnection, now: DateTime<Utc>, new: &NewAdmin) -> Result<AdminId, AccountError> {
    let hash = hash_password(&new.password)?;
    transaction(conn, |conn| {
        let id = queries::upsert_admin(conn, AdminId::new(), &new.email.lower(), &hash, now)?;
        queries::delete_sessions_of(conn, id)?;
        Ok(id)
    })
}

/// Makes the first admin.
///
/// # Errors
/// [`AccountError::AlreadySetUp`] if there is one; of two at the same moment, one succeeds.
pub fn set_first_admin(conn: &mut PgConnection, now: DateTime<Utc>, new: &NewAdmin) -> Result<AdminId, AccountError> {
    let hash = hash_password(&new.password)?;
    transaction(conn, |conn| {
        queries::lock_admins(conn)?;
        if queries::any_admin(conn)? {
            return Err(AccountError::AlreadySetUp);
        }
        Ok(queries::upsert_admin(conn, AdminId::new(), &new.email.lower(), &hash, now)?)
    })
}

/// Whether there is an admin.
///
/// # Errors
/// The database's.
pub fn any_admin(conn: &mut PgConnection) -> Result<bool, DbError> {
    queries::any_admin(conn)
}

/// Logs an admin in and returns the value of the session's cookie.
///
/// # Errors
/// [`AccountError::WrongLogin`], after the same work whether the address is known or not.
pub fn log_in(conn: &mut PgConnection, now: DateTime<Utc>, email: &str, password: &str) -> Result<String, AccountError> {
    let email = Email::parse(email).map(|email| email.lower()).unwrap_or_default();
    let admin = queries::admin(conn, &email)?;
    let hash = admin.as_ref().map_or_else(nobody, |(_, hash)| hash.clone());
    let is_right = verify_password(password, &hash);
    match admin {
        Some((id, _)) if is_right => open_session(conn, now, id),
        _ => Err(AccountError::WrongLogin),
    }
}

/// A hash that no password has, so that an unknown address takes as long as a wrong password. Made once: making it takes that long too.
fn nobody() -> String {
    static NOBODY: OnceLock<String> = OnceLock::new();
    NOBODY.get_or_init(|| hash_password(&new_secret()).unwrap_or_default()).clone()
}

/// Opens a session for an admin who was let in by other means than a password: the one-time link.
///
/// # Errors
/// The database's.
pub fn open_session(conn: &mut PgConnection, now: DateTime<Utc>, admin: AdminId) -> Result<String, AccountError> {
    let (token, csrf_token) = (new_secret(), new_secret());
    transaction(conn, |conn| {
        queries::delete_expired_sessions(conn, now)?;
        queries::insert_session(conn, &digest(token.as_bytes()), admin, &csrf_token, now, now + TimeDelta::hours(SESSION_HOURS))
    })?;
    Ok(token)
}

/// Ends a session.
///
/// # Errors
/// The database's.
pub fn log_out(conn: &mut PgConnection, token: &str) -> Result<(), AccountError> {
    Ok(transaction(conn, |conn| queries::delete_session(conn, &digest(token.as_bytes())))?)
}

/// The session that a cookie stands for, if it is one that has not ended.
///
/// # Errors
/// The database's.
pub fn session(conn: &mut PgConnection, now: DateTime<Utc>, token: &str) -> Result<Option<AdminSession>, AccountError> {
    Ok(queries::session(conn, &digest(token.as_bytes()), now)?)
}

/// Gives the partner of that name (made, if new) a new key, which is returned and nowhere else to be had.
///
/// # Errors
/// [`AccountError::Invalid`] for an impossible name or no scopes.
pub fn create_partner_key(conn: &mut PgConnection, now: DateTime<Utc>, name: &str, scopes: &[Scope]) -> Result<String, AccountError> {
    let name = rules::partner_name(name).map_err(AccountError::Invalid)?;
    if scopes.is_empty() {
        return Err(AccountError::Invalid(FieldErrors::one("scope", "must be one or more of read, sell, admin")));
    }
    let key = format!("{KEY_PREFIX}{}", new_secret());
    transaction(conn, |conn| {
        let partner = queries::upsert_partner(conn, PartnerId::new(), &name, now)?;
        queries::insert_partner_key(conn, &digest(key.as_bytes()), partner, scopes, now)
    })?;
    Ok(key)
}

fn partner_by_digest(conn: &mut PgConnection, key_digest: &[u8]) -> Result<Option<Partner>, AccountError> {
    Ok(queries::partner_by_key(conn, key_digest)?)
}

fn hash_password(password: &str) -> Result<String, AccountError> {
    let hash = Argon2::default().hash_password(password.as_bytes()).map_err(|error| AccountError::Hash(error.to_string()))?;
    Ok(hash.to_string())
}

fn verify_password(password: &str, hash: &str) -> bool {
    PasswordHash::new(hash).is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

/// The names of all partners.
///
/// # Errors
/// The database's.
pub fn partner_names(conn: &mut PgConnection) -> Result<HashMap<PartnerId, String>, DbError> {
    queries::partner_names(conn)
}

/// The name of a partner.
///
/// # Errors
/// The database's.
pub fn partner_name(conn: &mut PgConnection, id: PartnerId) -> Result<Option<String>, DbError> {
    queries::partner_name(conn, id)
}
