//! Reads a page as a browser does, as far as these tests need it: its forms with what they would send, and its text.

use crate::support::Client;

/// A form, and what it would send.
#[derive(Clone, Debug, Default)]
pub struct Form {
    pub id: String,
    pub action: String,
    fields: Vec<(String, String)>,
    buttons: Vec<Button>,
}

#[derive(Clone, Debug, Default)]
struct Button {
    words: String,
    sends: Option<(String, String)>,
}

impl Form {
    /// The form with another value in that field.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.fields.retain(|(field, _)| field != name);
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What the field would send; nothing if it would not be sent.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    /// All that it sends.
    pub fn fields(&self) -> Vec<(&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// The form, sent by the button with these words, if it has that button.
    pub fn pressed(mut self, words: &str) -> Option<Self> {
        let button = self.buttons.iter().find(|button| button.words == words)?.clone();
        self.fields.extend(button.sends);
        Some(self)
    }

    /// Sends it as a browser does.
    pub fn send(&self, client: &Client, cookie: Option<&str>) -> crate::support::Reply {
        client.submit(&self.action, &self.fields(), cookie)
    }
}

/// The form that the button with these words sends.
pub fn form(html: &str, button: &str) -> Option<Form> {
    forms(html).into_iter().find_map(|form| form.pressed(button))
}

/// Every form of the page.
pub fn forms(html: &str) -> Vec<Form> {
    let (mut forms, mut strays) = (Vec::<Form>::new(), Vec::new());
    let mut tokens = tokens(html).into_iter().peekable();
    let mut is_in_form = false;
    while let Some(token) = tokens.next() {
        let Token::Open(tag) = token else {
            is_in_form &= !matches!(&token, Token::Close(name) if name == "form");
            continue;
        };
        let mut words = || -> String {
            let mut words = String::new();
            while let Some(Token::Text(text)) = tokens.next_if(|token| matches!(token, Token::Text(_))) {
                words.push_str(&text);
            }
            words
        };
        let found = match tag.name.as_str() {
            "form" => {
                is_in_form = true;
                forms.push(Form { id: tag.text("id"), action: tag.text("action"), ..Form::default() });
                continue;
            }
            "button" => {
                let sends = tag.get("name").map(|name| (name.to_owned(), tag.text("value")));
                let button = Button { words: words().trim().to_owned(), sends };
                match tag.get("form") {
                    Some(id) => strays.push((id.to_owned(), button)),
                    None => forms.last_mut().unwrap().buttons.push(button),
                }
                continue;
            }
            "input" => tag.sent_by_input(),
            "textarea" => Some((tag.text("name"), words().trim_start_matches('\n').to_owned())),
            "select" => Some((tag.text("name"), String::new())),
            "option" if is_in_form => {
                // The first option is chosen unless another says that it is; a list of suggestions is never sent.
                let form = forms.last_mut().unwrap();
                let chosen = form.fields.last_mut().filter(|(_, value)| value.is_empty() || tag.get("selected").is_some());
                if let Some((_, value)) = chosen.filter(|_| tag.get("value").is_some()) {
                    *value = tag.text("value");
                }
                continue;
            }
            // Its options are suggestions: they are skipped up to its end.
            "datalist" => {
                while tokens.next_if(|token| !matches!(token, Token::Close(name) if name == "datalist")).is_some() {}
                continue;
            }
            _ => None,
        };
        if let Some(field) = found.filter(|(name, _)| is_in_form && !name.is_empty()) {
            forms.last_mut().unwrap().fields.push(field);
        }
    }
    for (id, button) in strays {
        forms.iter_mut().find(|form| form.id == id).unwrap_or_else(|| panic!("no form {id:?}")).buttons.push(button);
    }
    forms
}

/// What a reader sees of the page's body, with one space for any white.
pub fn text(html: &str) -> String {
    let body = html.find("<body").map_or(html, |at| &html[at..]);
    let texts = tokens(body).into_iter().map(|token| if let Token::Text(text) = token { text } else { " ".to_owned() });
    texts.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The fields that no label names.
pub fn unlabelled(html: &str) -> Vec<String> {
    let tags: Vec<Tag> = tokens(html).into_iter().filter_map(|token| if let Token::Open(tag) = token { Some(tag) } else { None }).collect();
    let labels: Vec<&str> = tags.iter().filter(|tag| tag.name == "label").filter_map(|tag| tag.get("for")).collect();
    let is_field = |tag: &&Tag| matches!(tag.name.as_str(), "input" | "select" | "textarea") && tag.get("type") != Some("hidden");
    let fields = tags.iter().filter(is_field);
    fields.filter(|tag| !tag.get("id").is_some_and(|id| labels.contains(&id))).map(|tag| tag.text("name")).collect()
}

enum Token {
    Text(String),
    Open(Tag),
    Close(String),
}

struct Tag {
    name: String,
    attributes: Vec<(String, String)>,
}

impl Tag {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(attribute, _)| attribute == name).map(|(_, value)| value.as_str())
    }

    fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_owned()
    }

    fn sent_by_input(&self) -> Option<(String, String)> {
        let is_choice = matches!(self.get("type"), Some("radio" | "checkbox"));
        let is_sent = self.get("type") != Some("file") && (!is_choice || self.get("checked").is_some());
        is_sent.then(|| (self.text("name"), self.text("value")))
    }
}

fn tokens(html: &str) -> Vec<Token> {
    let (mut tokens, mut rest) = (Vec::new(), html);
    while let Some(start) = rest.find('<') {
        if start > 0 {
            tokens.push(Token::Text(unescaped(&rest[..start])));
        }
        let inside = &rest[start + 1..];
        let end = end_of_tag(inside);
        let (tag, after) = (&inside[..end], &inside[end + 1..]);
        tokens.push(match tag.strip_prefix('/') {
            Some(name) => Token::Close(name.trim().to_owned()),
            None => Token::Open(read_tag(tag)),
        });
        rest = after;
    }
    tokens.push(Token::Text(unescaped(rest)));
    tokens
}

/// Where the tag's `>` is: the first that is not in quotes.
fn end_of_tag(inside: &str) -> usize {
    let mut is_quoted = false;
    let end = inside.find(|letter| {
        is_quoted ^= letter == '"';
        letter == '>' && !is_quoted
    });
    end.unwrap_or_else(|| panic!("a tag that does not end: <{}", &inside[..inside.len().min(80)]))
}

fn read_tag(tag: &str) -> Tag {
    let (name, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
    let mut attributes = Vec::new();
    while !rest.trim().is_empty() {
        rest = rest.trim_start();
        let end = rest.find(|letter: char| letter == '=' || letter.is_whitespace()).unwrap_or(rest.len());
        let attribute = &rest[..end];
        rest = &rest[end..];
        let mut value = "";
        if let Some(quoted) = rest.strip_prefix("=\"") {
            (value, rest) = quoted.split_once('"').expect("a quote that ends");
        }
        attributes.push((attribute.to_owned(), unescaped(value)));
    }
    Tag { name: name.to_owned(), attributes }
}

fn unescaped(text: &str) -> String {
    let entities = [("#60;", "<"), ("#62;", ">"), ("#34;", "\""), ("#39;", "'"), ("#38;", "&"), ("lt;", "<"), ("gt;", ">"), ("amp;", "&")];
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let entity = entities.iter().find(|(entity, _)| part.starts_with(entity));
        let (entity, letter) = entity.unwrap_or_else(|| panic!("an entity, or an & that is not escaped: {part:?}"));
        plain.push_str(letter);
        plain.push_str(&part[entity.len()..]);
    }
    plain
}
