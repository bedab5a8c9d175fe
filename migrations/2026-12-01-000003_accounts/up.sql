CREATE TABLE admins (
    id            uuid PRIMARY KEY,
    email         text NOT NULL CONSTRAINT admins_email_key UNIQUE,
    password_hash text NOT NULL,
    created_at    timestamptz NOT NULL,
    CONSTRAINT admins_email_lower CHECK (email = lower(email))
);

COMMENT ON COLUMN admins.password_hash IS 'Argon2id in PHC form, with its salt and costs.';

CREATE TABLE admin_sessions (
    token_hash bytea PRIMARY KEY,
    admin_id   uuid NOT NULL CONSTRAINT admin_sessions_admin_id_fkey REFERENCES admins (id) ON DELETE CASCADE,
    csrf_token text NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE INDEX admin_sessions_expires_at ON admin_sessions (expires_at);

COMMENT ON COLUMN admin_sessions.token_hash IS 'SHA-256 of the cookie; the cookie itself is not stored.';
COMMENT ON COLUMN admin_sessions.csrf_token IS 'What each form of the session sends back, so that no other site can post in its name.';

CREATE TABLE partners (
    id         uuid PRIMARY KEY,
    name       text NOT NULL CONSTRAINT partners_name_key UNIQUE,
    created_at timestamptz NOT NULL
);

CREATE TABLE partner_keys (
    key_hash   bytea PRIMARY KEY,
    partner_id uuid NOT NULL CONSTRAINT partner_keys_partner_id_fkey REFERENCES partners (id) ON DELETE CASCADE,
    scopes     text[] NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT partner_keys_scopes_known CHECK (scopes <@ ARRAY['read', 'sell', 'admin'] AND cardinality(scopes) >= 1)
);

COMMENT ON COLUMN partner_keys.key_hash IS 'SHA-256 of the key. The key has 160 random bits, so a fast hash is enough, and it is shown once.';
COMMENT ON COLUMN partner_keys.scopes IS 'What the key may do: read, sell, admin.';
