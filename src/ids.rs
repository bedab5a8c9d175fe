//! Ids and secrets, made in the program so that no sequence is shared between machines.

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// A new id, greater than those made before it.
            #[must_use]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }

            /// The id as a plain UUID.
            #[must_use]
            pub fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(out)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                text.parse().map(Self)
            }
        }
    };
}

id!(
    /// Names an event.
    EventId
);
id!(
    /// Names a ticket type within its event.
    TicketTypeId
);
id!(
    /// Names an order within its event. Ids grow with time, so ordering by id lists orders by time.
    OrderId
);
id!(
    /// Names one load of inventory.
    LoadId
);
id!(
    /// Names a job within its event.
    JobId
);
id!(
    /// Names a webhook's endpoint.
    EndpointId
);
id!(
    /// Names a webhook's message.
    MessageId
);
id!(
    /// Names an admin.
    AdminId
);
id!(
    /// Names a partner.
    PartnerId
);

/// A new secret of 160 random bits, as 32 characters that survive a URL, a shell and a telephone.
#[must_use]
pub fn new_secret() -> String {
    BASE32_NOPAD.encode(&rand::random::<[u8; 20]>()).to_ascii_lowercase()
}

/// The unguessable part of a buyer's link: 128 random bits in 22 characters.
#[must_use]
pub fn new_access_key() -> String {
    BASE64URL_NOPAD.encode(&rand::random::<[u8; 16]>())
}

/// What the door checks: the ticket's position, so that it is found by primary key, and 80 random bits.
#[must_use]
pub fn new_ticket_code(position: i32) -> String {
    format!("{position}-{}", BASE32_NOPAD.encode(&rand::random::<[u8; 10]>()))
}

/// SHA-256 of a secret that is itself random, or of a request.
#[must_use]
pub fn digest(bytes: &[u8]) -> Vec<u8> {
    Sha256::digest(bytes).to_vec()
}

/// Compares two secrets in a time that does not tell where they differ.
#[must_use]
pub fn same_secret(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}
