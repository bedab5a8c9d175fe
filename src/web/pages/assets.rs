//! The style sheet, the script and the icon, from inside the program.

use std::sync::LazyLock;

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header},
    web::Path,
};
use data_encoding::HEXLOWER;

use crate::{ids::digest, web::error::Problem};

struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
}

const STYLE: Asset =
    Asset { name: "boxoffice.css", content_type: "text/css; charset=utf-8", bytes: include_bytes!("../../../static/boxoffice.css") };
const ICON: Asset = Asset { name: "icon.svg", content_type: "image/svg+xml", bytes: include_bytes!("../../../static/icon.svg") };
const SCRIPT: Asset =
    Asset { name: "hold.js", content_type: "text/javascript; charset=utf-8", bytes: include_bytes!("../../../static/hold.js") };

static STYLE_LINK: LazyLock<String> = LazyLock::new(|| STYLE.link());
static ICON_LINK: LazyLock<String> = LazyLock::new(|| ICON.link());
static SCRIPT_LINK: LazyLock<String> = LazyLock::new(|| SCRIPT.link());

impl Asset {
    /// Part of the content's hash: another content has another address.
    fn version(&self) -> String {
        HEXLOWER.encode(digest(self.bytes).get(..8).unwrap_or_default())
    }

    fn link(&self) -> String {
        format!("/static/{}?v={}", self.name, self.version())
    }
}

/// The address of the style sheet.
pub(super) fn style_link() -> &'static str {
    &STYLE_LINK
}

/// The address of the icon.
pub(super) fn icon_link() -> &'static str {
    &ICON_LINK
}

/// The address of the script that counts a hold down.
pub(super) fn script_link() -> &'static str {
    &SCRIPT_LINK
}

/// `GET /static/{name}`.
pub(in crate::web) async fn show(request: HttpRequest, name: Path<String>) -> Result<HttpResponse, Problem> {
    let asset = [STYLE, ICON, SCRIPT].into_iter().find(|asset| asset.name == name.as_str());
    let asset = asset.ok_or_else(|| Problem::not_found("There is nothing at this address."))?;
    // Only the address with this content's hash always means this content.
    let is_for_good = request.query_string() == format!("v={}", asset.version());
    let keep = if is_for_good { "public, max-age=31536000, immutable" } else { "no-cache" };
    Ok(HttpResponse::build(StatusCode::OK)
        .content_type(asset.content_type)
        .insert_header((header::CACHE_CONTROL, keep))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .body(asset.bytes))
}
