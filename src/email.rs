//! E-mail addresses; a value that exists can be written to.

use email_address::{EmailAddress, Options};
use url::Host;

/// What an address must look like, for the messages of every form and call.
pub const EXPECTED: &str = "must be an e-mail address, like ada@example.org";

/// An e-mail address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email(String);

impl Email {
    /// Reads an address, without the spaces around it. `None` if no mail could be sent to it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let options = Options::default().with_required_tld().without_domain_literal().without_display_text();
        let address = EmailAddress::parse_with_options(text.trim(), options).ok()?;
        // A name in quotes is one that hardly anybody has, and that libraries for mail do not send to.
        let is_plain = !address.local_part().contains('"') && Self::ascii(address.as_str()).is_some();
        is_plain.then(|| Self(address.to_string()))
    }

    /// The address as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address with the domain as name servers know it: `ada@exämple.org` is `ada@xn--exmple-cua.org`. `None` if there is no such form.
    #[must_use]
    pub fn ascii(address: &str) -> Option<String> {
        let (name, domain) = address.rsplit_once('@')?;
        match Host::parse(domain).ok()? {
            Host::Domain(domain) => Some(format!("{name}@{domain}")),
            Host::Ipv4(_) | Host::Ipv6(_) => None,
        }
    }

    /// The address in lower case: how accounts are compared.
    #[must_use]
    pub fn lower(&self) -> String {
        self.0.to_lowercase()
    }
}

/// One form for all ways in which a buyer can write the same address: in lower case, without what follows a `+` in the name, which the
/// usual mail services ignore.
#[must_use]
pub fn normal_form(address: &str) -> String {
    let lower = address.trim().to_lowercase();
    let Some((name, domain)) = lower.rsplit_once('@') else { return lower };
    let plain = name.split('+').next().filter(|plain| !plain.is_empty()).unwrap_or(name);
    format!("{plain}@{domain}")
}

#[cfg(test)]
mod tests {
    use super::{Email, normal_form};

    #[test]
    fn ways_to_write_one_address_have_one_form() {
        for same in ["ada@example.org", "Ada@Example.ORG", " ada+gala@example.org", "ADA+1+2@example.org"] {
            assert_eq!(normal_form(same), "ada@example.org", "{same}");
        }
        assert_eq!(normal_form("+1@example.org"), "+1@example.org", "a name that is nothing but a tag stays");
        assert_ne!(normal_form("a.da@example.org"), normal_form("ada@example.org"), "dots matter at most services");
    }

    #[test]
    fn a_domain_is_written_as_name_servers_know_it() {
        assert_eq!(Email::ascii("ada@exämple.org").unwrap(), "ada@xn--exmple-cua.org");
        assert_eq!(Email::ascii("Ada@example.org").unwrap(), "Ada@example.org");
        assert_eq!(Email::parse("ada@exämple.org").unwrap().as_str(), "ada@exämple.org", "as it was given");
    }

    #[test]
    fn addresses_that_can_be_written_to() {
        assert_eq!(Email::parse(" ada@example.org ").unwrap().as_str(), "ada@example.org");
        for wrong in [
            "",
            "ada",
            "ada@",
            "@example.org",
            "a b@example.org",
            "ada@example",
            "Ada <ada@example.org>",
            "a@[127.0.0.1]",
            "a@b.org\r\nBcc: c@d.org",
            "\"quoted local\"@example.org",
            "\"ada\"@example.org",
        ] {
            assert!(Email::parse(wrong).is_none(), "{wrong:?}");
        }
    }
}
