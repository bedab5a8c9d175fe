//! SQL of accounts. Takes a connection, opens and commits nothing.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::{dsl::exists, prelude::*, sql_query};
use uuid::Uuid;

use super::{AdminSession, Partner, Scope};
use crate::{
    db::{
        DbError,
        schema::{admin_sessions, admins, partner_keys, partners},
    },
    ids::{AdminId, PartnerId},
};

/// Keeps others from adding an admin until the transaction at hand ends; reading goes on.
pub(super) fn lock_admins(conn: &mut PgConnection) -> Result<(), DbError> {
    sql_query("LOCK TABLE admins IN SHARE ROW EXCLUSIVE MODE").execute(conn)?;
    Ok(())
}

pub(super) fn any_admin(conn: &mut PgConnection) -> Result<bool, DbError> {
    Ok(diesel::select(exists(admins::table.select(admins::id))).get_result(conn)?)
}

pub(super) fn upsert_admin(conn: &mut PgConnection, id: AdminId, email: &str, hash: &str, now: DateTime<Utc>) -> Result<AdminId, DbError> {
    let id: Uuid = diesel::insert_into(admins::table)
        .values((admins::id.eq(id.uuid()), admins::email.eq(email), admins::password_hash.eq(hash), admins::created_at.eq(now)))
        .on_conflict(admins::email)
        .do_update()
        .set(admins::password_hash.eq(hash))
        .returning(admins::id)
        .get_result(conn)?;
    Ok(id.into())
}

pub(super) fn admin(conn: &mut PgConnection, email: &str) -> Result<Option<(AdminId, String)>, DbError> {
    let row: Option<(Uuid, String)> =
        admins::table.filter(admins::email.eq(email)).select((admins::id, admins::password_hash)).first(conn).optional()?;
    Ok(row.map(|(id, hash)| (id.into(), hash)))
}

pub(super) fn insert_session(
    conn: &mut PgConnection,
    token_hash: &[u8],
    admin: AdminId,
    csrf_token: &str,
    now: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> Result<(), DbError> {
    diesel::insert_into(admin_sessions::table)
        .values((
            admin_sessions::token_hash.eq(token_hash),
            admin_sessions::admin_id.eq(admin.uuid()),
            admin_sessions::csrf_token.eq(csrf_token),
            admin_sessions::created_at.eq(now),
            admin_sessions::expires_at.eq(expires_at),
        ))
        .execute(conn)?;
    Ok(())
}

pub(super) fn session(conn: &mut PgConnection, token_hash: &[u8], now: DateTime<Utc>) -> Result<Option<AdminSession>, DbError> {
    let row: Option<(Uuid, String, String)> = admin_sessions::table
        .inner_join(admins::table)
        .filter(admin_sessions::token_hash.eq(token_hash).and(admin_sessions::expires_at.gt(now)))
        .select((admins::id, admins::email, admin_sessions::csrf_token))
        .first(conn)
        .optional()?;
    Ok(row.map(|(id, email, csrf_token)| AdminSession { admin: id.into(), email, csrf_token }))
}

pub(super) fn delete_session(conn: &mut PgConnection, token_hash: &[u8]) -> Result<(), DbError> {
    diesel::delete(admin_sessions::table.find(token_hash)).execute(conn)?;
    Ok(())
}

pub(super) fn delete_sessions_of(conn: &mut PgConnection, admin: AdminId) -> Result<(), DbError> {
    diesel::delete(admin_sessions::table.filter(admin_sessions::admin_id.eq(admin.uuid()))).execute(conn)?;
    Ok(())
}

pub(super) fn delete_expired_sessions(conn: &mut PgConnection, now: DateTime<Utc>) -> Result<(), DbError> {
    diesel::delete(admin_sessions::table.filter(admin_sessions::expires_at.le(now))).execute(conn)?;
    Ok(())
}

pub(super) fn upsert_partner(conn: &mut PgConnection, id: PartnerId, name: &str, now: DateTime<Utc>) -> Result<PartnerId, DbError> {
    diesel::insert_into(partners::table)
        .values((partners::id.eq(id.uuid()), partners::name.eq(name), partners::created_at.eq(now)))
        .on_conflict_do_nothing()
        .execute(conn)?;
    let id: Uuid = partners::table.filter(partners::name.eq(name)).select(partners::id).first(conn)?;
    Ok(id.into())
}

pub(super) fn insert_partner_key(
    conn: &mut PgConnection,
    key_hash: &[u8],
    partner: PartnerId,
    scopes: &[Scope],
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    let scopes: Vec<&str> = scopes.iter().map(|scope| scope.name()).collect();
    diesel::insert_into(partner_keys::table)
        .values((
            partner_keys::key_hash.eq(key_hash),
            partner_keys::partner_id.eq(partner.uuid()),
            partner_keys::scopes.eq(scopes),
            partner_keys::created_at.eq(now),
        ))
        .execute(conn)?;
    Ok(())
}

pub(super) fn partner_name(conn: &mut PgConnection, id: PartnerId) -> Result<Option<String>, DbError> {
    Ok(partners::table.find(id.uuid()).select(partners::name).first(conn).optional()?)
}

pub(super) fn partner_names(conn: &mut PgConnection) -> Result<HashMap<PartnerId, String>, DbError> {
    let rows: Vec<(Uuid, String)> = partners::table.select((partners::id, partners::name)).load(conn)?;
    Ok(rows.into_iter().map(|(id, name)| (id.into(), name)).collect())
}

pub(super) fn partner_by_key(conn: &mut PgConnection, key_hash: &[u8]) -> Result<Option<Partner>, DbError> {
    let row: Option<(Uuid, String, Vec<Option<String>>)> = partner_keys::table
        .inner_join(partners::table)
        .filter(partner_keys::key_hash.eq(key_hash))
        .select((partners::id, partners::name, partner_keys::scopes))
        .first(conn)
        .optional()?;
    let partner = |(id, name, scopes): (Uuid, String, Vec<Option<String>>)| Partner {
        id: id.into(),
        name,
        scopes: scopes.into_iter().flatten().filter_map(|name| name.parse().ok()).collect(),
    };
    Ok(row.map(partner))
}
