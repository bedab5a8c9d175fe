//! Moments as people read them: in the event's own zone, with the weekday.

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;

/// When something takes place.
pub struct When {
    /// For programs: `2027-03-12T20:00:00+01:00`.
    pub iso: String,
    /// For people: `Fri 12 March 2027, 20:00`.
    pub text: String,
    /// The zone's name.
    pub zone: &'static str,
    /// The weekday by itself, for the leaf of a calendar.
    pub weekday: String,
    /// The day of the month by itself.
    pub day: String,
    /// The month by itself.
    pub month: String,
}

impl When {
    /// A moment as it is read in `zone`.
    #[must_use]
    pub fn new(moment: DateTime<Utc>, zone: Tz) -> Self {
        let local = moment.with_timezone(&zone);
        let form = |form: &str| local.format(form).to_string();
        Self {
            iso: local.to_rfc3339(),
            text: form("%a %-d %B %Y, %H:%M"),
            zone: zone.name(),
            weekday: form("%a"),
            day: form("%-d"),
            month: form("%b"),
        }
    }
}

/// `Fri 12 March 2027, 20:00 (Europe/Berlin)`.
#[must_use]
pub fn with_zone(moment: DateTime<Utc>, zone: Tz) -> String {
    let When { text, zone, .. } = When::new(moment, zone);
    format!("{text} ({zone})")
}

/// `20:00:30 (Europe/Berlin)`, for a moment that is near.
#[must_use]
pub fn time_of_day(moment: DateTime<Utc>, zone: Tz) -> String {
    format!("{} ({})", moment.with_timezone(&zone).format("%H:%M:%S"), zone.name())
}

/// `Fri 12 March 2027, 20:00:30`, where what came first matters.
#[must_use]
pub fn to_the_second(moment: DateTime<Utc>, zone: Tz) -> String {
    moment.with_timezone(&zone).format("%a %-d %B %Y, %H:%M:%S").to_string()
}

/// `45 s`, `2 min`, `3 h`, `5 days`: how long something takes, as people say it. What is over takes no time.
#[must_use]
pub fn span(time: TimeDelta) -> String {
    match (time.num_days(), time.num_hours(), time.num_minutes()) {
        (2.., _, _) => format!("{} days", time.num_days()),
        (_, 2.., _) => format!("{} h", time.num_hours()),
        (_, _, 1..) => format!("{} min", time.num_minutes()),
        _ => format!("{} s", time.num_seconds().max(0)),
    }
}

/// As an `<input type="datetime-local">` has it.
#[must_use]
pub fn for_input(moment: DateTime<Utc>, zone: Tz) -> String {
    moment.with_timezone(&zone).format("%Y-%m-%dT%H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_in_the_events_zone() {
        let moment = "2027-03-12T19:00:00Z".parse().unwrap();
        assert_eq!(with_zone(moment, Tz::Europe__Berlin), "Fri 12 March 2027, 20:00 (Europe/Berlin)");
        assert_eq!(for_input(moment, Tz::America__New_York), "2027-03-12T14:00");
        assert_eq!(When::new(moment, Tz::Asia__Tokyo).iso, "2027-03-13T04:00:00+09:00");
    }

    #[test]
    fn a_span_is_told_as_people_say_it() {
        let told = |seconds| span(TimeDelta::seconds(seconds));
        assert_eq!([told(-5), told(59), told(60), told(119 * 60 + 59)], ["0 s", "59 s", "1 min", "119 min"]);
        assert_eq!([told(2 * 3_600), told(48 * 3_600 - 1), told(48 * 3_600)], ["2 h", "47 h", "2 days"]);
    }
}
