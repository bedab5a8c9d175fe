//! Money: whole minor units and an ISO 4217 currency. There are no fractions anywhere.

use std::fmt;

use iso_currency::Currency as IsoCurrency;

/// A currency of ISO 4217; a value that exists is a known code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Currency(IsoCurrency);

impl Currency {
    /// Reads a three-letter code, in any case.
    #[must_use]
    pub fn parse(code: &str) -> Option<Self> {
        IsoCurrency::from_code(&code.trim().to_ascii_uppercase()).map(Self)
    }

    /// The three-letter code.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.0.code()
    }

    /// How many digits follow the decimal point: 2 for EUR, 0 for JPY, 3 for KWD.
    #[must_use]
    pub fn decimals(self) -> u32 {
        self.0.exponent().map_or(0, u32::from)
    }

    /// The sign that is written without space before the amount, for the currencies whose sign is theirs alone.
    fn sign(self) -> Option<&'static str> {
        match self.code() {
            "EUR" => Some("€"),
            "USD" => Some("$"),
            "GBP" => Some("£"),
            "JPY" => Some("¥"),
            _ => None,
        }
    }
}

/// An amount of money, shown as people write it: `€1,234.50`, `¥10,000`, `KWD 1.500`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money {
    /// The amount in minor units.
    pub minor: i64,
    /// The currency.
    pub currency: Currency,
}

impl Money {
    /// The number alone, as [`parse_amount`] reads it: `1234.50`.
    #[must_use]
    pub fn plain(self) -> String {
        let scale = 10_i64.pow(self.currency.decimals());
        let whole = self.minor / scale;
        match usize::try_from(self.currency.decimals()) {
            Ok(width @ 1..) => format!("{whole}.{:0width$}", (self.minor % scale).abs()),
            _ => whole.to_string(),
        }
    }
}

impl fmt::Display for Money {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.minor < 0 {
            out.write_str("-")?;
        }
        match self.currency.sign() {
            Some(sign) => out.write_str(sign)?,
            // The space must not break: "KWD" at the end of a line and "1.500" on the next reads as two things.
            None => write!(out, "{}\u{a0}", self.currency.code())?,
        }
        let scale = 10_u64.pow(self.currency.decimals());
        let minor = self.minor.unsigned_abs();
        out.write_str(&grouped(minor / scale))?;
        if scale > 1 {
            let width = usize::try_from(self.currency.decimals()).unwrap_or(0);
            write!(out, ".{:0width$}", minor % scale)?;
        }
        Ok(())
    }
}

/// A whole number with a comma at every thousand.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Reads an amount as people type it (`45`, `45.00`) into minor units; `None` if it is not an amount of that currency,
/// is negative, or has more digits after the point than the currency has.
#[must_use]
pub fn parse_amount(text: &str, currency: Currency) -> Option<i64> {
    let text = text.trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let decimals = usize::try_from(currency.decimals()).ok()?;
    let digits_only = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits_only(whole) || !digits_only(fraction) || fraction.len() > decimals {
        return None;
    }
    format!("{whole}{fraction:0<decimals$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(minor: i64, code: &str) -> String {
        Money { minor, currency: Currency::parse(code).unwrap() }.to_string()
    }

    #[test]
    fn amounts_read_as_people_write_them() {
        assert_eq!(money(4_500, "EUR"), "€45.00");
        assert_eq!(money(10_000, "JPY"), "¥10,000");
        assert_eq!(money(1_500, "KWD"), "KWD\u{a0}1.500");
        assert_eq!(money(123_456_789, "USD"), "$1,234,567.89");
        assert_eq!(money(5, "GBP"), "£0.05");
        assert_eq!(money(0, "CHF"), "CHF\u{a0}0.00");
    }

    #[test]
    fn typed_amounts_become_minor_units_without_rounding() {
        let eur = Currency::parse("eur").unwrap();
        let jpy = Currency::parse("JPY").unwrap();
        assert_eq!(parse_amount("45", eur), Some(4_500));
        assert_eq!(parse_amount(" 45.5 ", eur), Some(4_550));
        assert_eq!(parse_amount("0.07", eur), Some(7));
        assert_eq!(parse_amount("10000", jpy), Some(10_000));
        for wrong in ["", "-1", "1.234", "1,50", "1e3", ".5", "99999999999999999999"] {
            assert_eq!(parse_amount(wrong, eur), None, "{wrong:?}");
        }
        assert_eq!(parse_amount("1.5", jpy), None);
    }
}
