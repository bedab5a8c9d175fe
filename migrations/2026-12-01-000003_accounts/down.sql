DROP TABLE partner_keys;
DROP TABLE partners;
DROP TABLE admin_sessions;
DROP TABLE admins;
