//! Tasks and attempts for tests.

use crate::dag::{Attempt, Kind, Outcome, Status, Task};
use crate::time::Timestamp;

pub(super) fn task(title: &str, description: &str) -> Task {
    let now = Timestamp::from_epoch(1_794_798_343).unwrap();
    Task {
        id: "t-3f9a01".parse().unwrap(),
        key: None,
        kind: Kind::Work,
        parent: None,
        feature: None,
        title: title.into(),
        description: description.into(),
        priority: 0,
        status: Some(Status::Pending),
        reason: None,
        retries: 0,
        max_retries: None,
        not_before: None,
        created_by: None,
        created_at: now,
        updated_at: now,
    }
}

pub(super) fn attempt(number: u32, outcome: Outcome, reason: &str) -> Attempt {
    let now = Timestamp::from_epoch(1_794_798_343).unwrap();
    Attempt {
        id: "a-3f9a01".parse().unwrap(),
        task: "t-3f9a01".parse().unwrap(),
        number,
        run: None,
        model: None,
        started_at: now,
        ended_at: Some(now),
        outcome: Some(outcome),
        reason: Some(reason.into()),
        exit_code: None,
        cost_usd: None,
        input_tokens: None,
        cache_read_tokens: None,
        cache_write_tokens: None,
        output_tokens: None,
        billing: None,
        turns: None,
        log_path: None,
        session_id: None,
        head_before: None,
        head_after: None,
        verification_status: None,
        verify_log_path: None,
    }
}
