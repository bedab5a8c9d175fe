//! What the consumers were given, and what the table says afterwards, compared with what was to be done.

use std::collections::HashMap;

use diesel::{PgConnection, QueryableByName, RunQueryDsl, sql_query, sql_types::BigInt};

use super::{consume::Worked, fill::FIRST_WANTED, situation::Jobs};
use crate::db::DbError;

/// What the table holds.
#[derive(Debug, Default, QueryableByName)]
pub(super) struct Stored {
    #[diesel(sql_type = BigInt)]
    done: i64,
    #[diesel(sql_type = BigInt)]
    created: i64,
    #[diesel(sql_type = BigInt)]
    others: i64,
    #[diesel(sql_type = BigInt)]
    taken_again: i64,
}

const STORED: &str = "SELECT count(*) FILTER (WHERE state = 'DONE') AS done, count(*) FILTER (WHERE state = 'CREATED') AS created, \
     count(*) FILTER (WHERE state NOT IN ('DONE', 'CREATED')) AS others, count(*) FILTER (WHERE attempts > 1) AS taken_again FROM jobs";

/// Looks at the table.
pub(super) fn stored(conn: &mut PgConnection) -> Result<Stored, DbError> {
    Ok(sql_query(STORED).get_result(conn)?)
}

/// What was to be done, and what else was there.
pub(super) struct Expected {
    /// All of these are to be done.
    pub(super) wanted: Jobs,
    /// Jobs of the large group, which are done as far as it goes.
    pub(super) ahead: u32,
    /// Jobs that were done before.
    pub(super) finished: u32,
}

/// All that is wrong, in words; nothing if each job was done once and each group in order.
pub(super) fn breaches(expected: &Expected, worked: &[Worked], stored: &Stored) -> Vec<String> {
    let (mut twice, mut out_of_order) = (0_u32, 0_u32);
    let mut next: HashMap<u32, u32> = HashMap::new();
    for (group, number) in worked {
        let next = next.entry(*group).or_default();
        twice += u32::from(number < next);
        out_of_order += u32::from(number > next);
        *next = (number + 1).max(*next);
    }
    let groups = FIRST_WANTED..FIRST_WANTED + expected.wanted.groups;
    let not_ended = groups.filter(|group| next.get(group) != Some(&expected.wanted.each)).count();
    let all = i64::from(expected.wanted.count()) + i64::from(expected.ahead);
    let done = i64::try_from(worked.len()).unwrap_or(i64::MAX);
    let stored_done = stored.done - i64::from(expected.finished);
    let found = [
        (twice > 0).then(|| format!("{twice} jobs were done twice")),
        (out_of_order > 0).then(|| format!("{out_of_order} jobs were done before the one ahead of them in their group")),
        (not_ended > 0).then(|| format!("{not_ended} groups, or jobs alone, were not done to their end")),
        (stored_done != done).then(|| format!("{done} jobs were done, and {stored_done} are stored as done")),
        (stored.created != all - done).then(|| format!("{done} of {all} jobs were done, and {} are stored as waiting", stored.created)),
        (stored.others > 0).then(|| format!("{} jobs are neither done nor waiting", stored.others)),
        (stored.taken_again > 0).then(|| format!("{} jobs were taken more than once", stored.taken_again)),
    ];
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPECTED: Expected = Expected { wanted: Jobs { groups: 2, each: 2, are_alone: false }, ahead: 3, finished: 5 };

    #[test]
    fn all_is_well() {
        let stored = Stored { done: 10, created: 2, ..Stored::default() };
        let worked = [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1)];
        assert_eq!(breaches(&EXPECTED, &worked, &stored), Vec::<String>::new());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let stored = Stored { done: 9, created: 3, others: 0, taken_again: 1 };
        let worked = [(1, 1), (1, 0), (2, 0), (2, 0)];
        let expected = [
            "2 jobs were done twice",
            "1 jobs were done before the one ahead of them in their group",
            "1 groups, or jobs alone, were not done to their end",
            "1 jobs were taken more than once",
        ];
        assert_eq!(breaches(&EXPECTED, &worked, &stored), expected);
    }
}
