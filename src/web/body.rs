//! Reading a body: of the right type, of bounded size, in bounded time.

use std::{fmt, marker::PhantomData, time::Duration};

use actix_web::{
    HttpMessage, HttpRequest,
    http::StatusCode,
    web::{Bytes, BytesMut, Payload},
};
use futures_util::StreamExt;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, MapAccess, Visitor, value::MapAccessDeserializer},
};
use tokio::time::timeout;

use super::error::Problem;
use crate::input::FieldErrors;

/// Reads a whole body of at most `bytes_max` that arrives within `wait`.
///
/// # Errors
/// 413, 408, or 422 if the connection broke off in the middle.
pub(super) async fn read(mut payload: Payload, bytes_max: usize, wait: Duration) -> Result<Bytes, Problem> {
    let whole = async {
        let mut body = BytesMut::new();
        while let Some(chunk) = payload.next().await {
            let chunk = chunk.map_err(|_| Problem::invalid(&FieldErrors::one("body", "broke off before its end")))?;
            if body.len() + chunk.len() > bytes_max {
                let detail = format!("The body is larger than {} KiB, the most that is taken here.", bytes_max / 1_024);
                return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", detail));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    };
    timeout(wait, whole).await.unwrap_or_else(|_| {
        Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "The body did not arrive in time. Nothing was changed."))
    })
}

/// Whether the request's body is declared to be of that type.
pub(super) fn is_type(request: &HttpRequest, essence: &str) -> bool {
    request.content_type().eq_ignore_ascii_case(essence)
}

/// 415, naming what is taken.
pub(super) fn unsupported(taken: &str) -> Problem {
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", format!("The Content-Type must be {taken}."))
}

/// A JSON object. Read as it is, a struct is also taken from an array, as the fields in the order in which the program happens to have them.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;
            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

/// Reads a JSON object into `T`.
///
/// # Errors
/// 422, naming the field as a path.
pub(super) fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // Keeping the path costs as much as reading; only who made a mistake needs it.
    if let Ok(Object(value)) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let Object(value) = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "body".to_owned() } else { path };
        Problem::invalid(&FieldErrors::one(field, json_fault(error.inner())))
    })?;
    deserializer.end().map_err(|_| Problem::invalid(&FieldErrors::one("body", "must be one JSON value and nothing after it")))?;
    Ok(value)
}

fn json_fault(error: &serde_json::Error) -> String {
    let message = error.to_string();
    if !error.is_data() {
        return format!("must be JSON: {message}");
    }
    // The place in the text says less than the path does.
    let message = message.split(" at line ").next().unwrap_or(&message);
    let mismatch = ["invalid type: ", "invalid value: "].iter().find_map(|fault| message.strip_prefix(fault));
    mismatch.and_then(|mismatch| mismatch.split_once(", expected ")).map_or_else(
        || message.to_owned(),
        |(found, expected)| format!("must be {}, not {}", in_words_of_json(expected), in_words_of_json(found)),
    )
}

/// What serde calls a type, as JSON calls it.
fn in_words_of_json(called: &str) -> &str {
    match called {
        "a sequence" | "sequence" => "an array",
        "map" => "an object",
        "a boolean" => "true or false",
        other => other,
    }
}
