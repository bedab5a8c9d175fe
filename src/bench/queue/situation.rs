//! What the queue may find itself in.

use serde::Serialize;

use super::QueueArgs;

/// How many small groups there are, or fewer if there are fewer jobs.
const SMALL_GROUPS: u32 = 5_000;
/// Of so many jobs one is for the single group, whose jobs take a transaction each way one after the other.
const SINGLE_SHARE: u32 = 50;

/// Jobs, and what else is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Situation {
    /// Jobs that wait for nothing, and nothing else.
    Alone,
    /// The jobs are those of small groups.
    SmallGroups,
    /// A large group was written before the small ones.
    LargeGroupAhead,
    /// Jobs that wait for nothing, and many that are done.
    ManyFinished,
    /// Jobs that wait for nothing; somebody reads since before they were written.
    OldSnapshot,
    /// One group.
    OneGroup,
}

impl Situation {
    /// Every situation, the one that the others are compared with first.
    pub const ALL: [Self; 6] =
        [Self::Alone, Self::SmallGroups, Self::LargeGroupAhead, Self::ManyFinished, Self::OldSnapshot, Self::OneGroup];

    /// The name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Alone => "Jobs alone",
            Self::SmallGroups => "Small groups",
            Self::LargeGroupAhead => "Small groups behind a large one",
            Self::ManyFinished => "Jobs alone, many finished",
            Self::OldSnapshot => "Jobs alone, an old snapshot open",
            Self::OneGroup => "One group, one after the other",
        }
    }

    /// The jobs to do.
    pub(super) fn wanted(self, args: &QueueArgs) -> Jobs {
        match self {
            Self::Alone | Self::ManyFinished | Self::OldSnapshot => Jobs { groups: args.jobs, each: 1, are_alone: true },
            Self::SmallGroups | Self::LargeGroupAhead => {
                let groups = SMALL_GROUPS.min(args.jobs);
                Jobs { groups, each: args.jobs / groups, are_alone: false }
            }
            Self::OneGroup => Jobs { groups: 1, each: (args.jobs / SINGLE_SHARE).max(1), are_alone: false },
        }
    }
}

/// Jobs that are written together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jobs {
    /// Groups, or jobs that are alone.
    pub(super) groups: u32,
    /// Jobs of each group.
    pub(super) each: u32,
    /// They are in no group.
    pub(super) are_alone: bool,
}

impl Jobs {
    /// How many there are.
    pub(super) fn count(self) -> u32 {
        self.groups * self.each
    }
}
