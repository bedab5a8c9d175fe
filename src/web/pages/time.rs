//! Moments as people read them: in the event's own zone, with the weekday.

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;

use super::number;

/// When something takes place.
pub(super) struct When {
    /// For programs: `2027-03-12T20:00:00+01:00`.
    pub(super) iso: String,
    /// For people: `Fri 12 March 2027, 20:00`.
    pub(super) text: String,
    /// The zone's name.
    pub(super) zone: &'static str,
    /// Weekday, day and month by themselves, for the leaf of a calendar.
    pub(super) weekday: String,
    pub(super) day: String,
    pub(super) month: String,
}

impl When {
    pub(super) fn new(moment: DateTime<Utc>, zone: Tz) -> Self {
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
pub(super) fn with_zone(moment: DateTime<Utc>, zone: Tz) -> String {
    let When { text, zone, .. } = When::new(moment, zone);
    format!("{text} ({zone})")
}

/// `20:00:30 (Europe/Berlin)`, for a moment that is near.
pub(super) fn time_of_day(moment: DateTime<Utc>, zone: Tz) -> String {
    format!("{} ({})", moment.with_timezone(&zone).format("%H:%M:%S"), zone.name())
}

/// `45 s`, `2 min`, `3 h`, `5 days`: how long something takes, as people say it. What is over takes no time.
pub(super) fn span(time: TimeDelta) -> String {
    match (time.num_days(), time.num_hours(), time.num_minutes()) {
        (2.., _, _) => format!("{} days", number(time.num_days())),
        (_, 2.., _) => format!("{} h", time.num_hours()),
        (_, _, 1..) => format!("{} min", time.num_minutes()),
        _ => format!("{} s", time.num_seconds().max(0)),
    }
}

/// As an `<input type="datetime-local">` has it.
pub(super) fn for_input(moment: DateTime<Utc>, zone: Tz) -> String {
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
