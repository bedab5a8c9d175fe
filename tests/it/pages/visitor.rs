//! Somebody who visits the pages: a buyer, or an admin with a session's cookie.

use boxoffice::accounts::{self, AdminInput};

use super::markup::{self, Form};
use crate::support::{Client, Reply, Shop};

/// The admin whom [`Visitor::admin`] logs in.
pub const EMAIL: &str = "grace@example.org";
pub const PASSWORD: &str = "a long enough password";

/// A visitor of the pages, who has no partner's key.
pub struct Visitor {
    pub client: Client,
    pub cookie: Option<String>,
}

impl Visitor {
    /// One who is not logged in.
    pub fn of(shop: &Shop) -> Self {
        Self { client: Client::new(&shop.client.base), cookie: None }
    }

    /// One who is logged in as an admin.
    pub fn admin(shop: &Shop) -> Self {
        let mut conn = shop.database.connect();
        let new = AdminInput { email: EMAIL.to_owned(), password: PASSWORD.to_owned() }.parse().unwrap();
        let admin = accounts::set_admin(&mut conn, shop.clock.now(), &new).unwrap();
        let token = accounts::open_session(&mut conn, shop.clock.now(), admin).unwrap();
        Self { cookie: Some(format!("boxoffice_admin={token}")), ..Self::of(shop) }
    }

    /// The same visitor, with the cookie that the answer set.
    pub fn with_cookie_of(self, page: &Page) -> Self {
        let cookie = page.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
        Self { cookie: Some(cookie), ..self }
    }

    pub fn get(&self, path: &str) -> Page {
        Page(self.client.send("GET", path, &self.headers(), b""))
    }

    /// Sends a form.
    pub fn send(&self, form: &Form) -> Page {
        Page(form.send(&self.client, self.cookie.as_deref()))
    }

    /// Sends a form with a file in its field `file`.
    pub fn upload(&self, form: &Form, file: &[u8]) -> Page {
        let mut body = Vec::new();
        for (name, value) in form.fields() {
            body.extend(format!("--limit\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n").bytes());
        }
        let head = "--limit\r\nContent-Disposition: form-data; name=\"file\"; filename=\"seats.csv\"\r\nContent-Type: text/csv\r\n\r\n";
        body.extend(head.bytes());
        body.extend(file);
        body.extend(b"\r\n--limit--\r\n");
        let headers = [self.headers(), vec![("content-type", "multipart/form-data; boundary=limit")]].concat();
        Page(self.client.send("POST", &form.action, &headers, &body))
    }

    /// Goes where the answer leads.
    pub fn follow(&self, page: &Page) -> Page {
        assert_eq!(page.0.status, 303, "{page:?}");
        self.get(page.header("location"))
    }

    fn headers(&self) -> Vec<(&str, &str)> {
        self.cookie.iter().map(|cookie| ("cookie", cookie.as_str())).collect()
    }

    /// The buy form of an event, filled in by Ada for so many standard tickets.
    pub fn filled_in(&self, slug: &str, quantity: i64) -> Form {
        self.signed(slug, "Buy tickets", quantity)
    }

    /// The same of an event whose tickets are held first.
    pub fn reserving(&self, slug: &str, quantity: i64) -> Form {
        self.signed(slug, "Reserve tickets", quantity)
    }

    fn signed(&self, slug: &str, button: &str, quantity: i64) -> Form {
        let form = self.get(&format!("/events/{slug}")).form(button);
        form.with("quantity-standard", &quantity.to_string()).with("name", "Ada").with("email", "ada@example.org")
    }

    /// Buys so many standard tickets of the gala.
    pub fn buy(&self, quantity: i64) -> Page {
        self.send(&self.filled_in("gala", quantity))
    }
}

/// An answer that is a page, or leads to one.
#[derive(Debug)]
pub struct Page(pub Reply);

impl Page {
    pub fn status(&self) -> u16 {
        self.0.status
    }

    pub fn header(&self, name: &str) -> &str {
        self.0.header(name)
    }

    pub fn html(&self) -> &str {
        &self.0.body
    }

    /// What a reader sees.
    pub fn text(&self) -> String {
        markup::text(&self.0.body)
    }

    /// Whether a reader sees these words.
    pub fn says(&self, words: &str) -> bool {
        self.text().contains(words)
    }

    /// The form that the button with these words sends.
    pub fn form(&self, button: &str) -> Form {
        markup::form(&self.0.body, button).unwrap_or_else(|| panic!("no button {button:?}: {}", self.text()))
    }

    /// Whether there is a button with these words.
    pub fn has_button(&self, words: &str) -> bool {
        markup::form(&self.0.body, words).is_some()
    }

    /// The form with that id.
    pub fn form_with_id(&self, id: &str) -> Form {
        let form = markup::forms(&self.0.body).into_iter().find(|form| form.id == id);
        form.unwrap_or_else(|| panic!("no form {id:?}: {}", self.text()))
    }

    /// The form whose address ends so, where the words on its button depend on what it is about.
    pub fn form_by_end(&self, end: &str) -> Form {
        let form = markup::forms(&self.0.body).into_iter().find(|form| form.action.ends_with(end));
        form.unwrap_or_else(|| panic!("no form at {end:?}: {}", self.text()))
    }

    /// The part of the page between two marks.
    pub fn between(&self, from: &str, to: &str) -> &str {
        let rest = self.0.body.split_once(from).unwrap_or_else(|| panic!("no {from:?}: {self:?}")).1;
        rest.split_once(to).map_or(rest, |(part, _)| part)
    }

    /// The tickets' codes, as shown.
    pub fn codes(&self) -> Vec<String> {
        let parts = self.0.body.split("<p class=\"code\">").skip(1);
        parts.map(|part| markup::text(part.split("</p>").next().unwrap()).trim_start_matches("Code: ").to_owned()).collect()
    }
}
