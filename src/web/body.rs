//! Reading a body: of the right type, of bounded size, in bounded time.

use std::time::Duration;

use actix_web::{
    HttpMessage, HttpRequest,
    http::StatusCode,
    web::{Bytes, BytesMut, Payload},
};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
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

/// Reads JSON into `T`.
///
/// # Errors
/// 422, naming the field as a path.
pub(super) fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // An array would be read as the fields in the order in which the program happens to have them.
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::invalid(&FieldErrors::one("body", "must be a JSON object")));
    }
    // Keeping the path costs as much as reading; only who made a mistake needs it.
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "body".to_owned() } else { path };
        Problem::invalid(&FieldErrors::one(field, json_fault(error.inner())))
    })?;
    deserializer.end().map_err(|_| Problem::invalid(&FieldErrors::one("body", "must be one JSON value and nothing after it")))?;
    Ok(value)
}

fn json_fault(error: &serde_json::Error) -> String {
    let message = error.to_string();
    if error.is_data() {
        // The place in the text says less than the path does.
        return message.split(" at line ").next().unwrap_or(&message).to_owned();
    }
    format!("must be JSON: {message}")
}
