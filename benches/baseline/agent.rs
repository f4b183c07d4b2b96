//! An agent that answers at once: what a session costs at the least.

use std::io::Write;

fn main() {
    let task = std::env::var("RALPH_TASK_ID").unwrap_or_default();
    let answer = format!(
        "{{\"type\":\"assistant\",\"message\":{{\"id\":\"m\",\"model\":\"x\",\"content\":[{{\"type\":\"text\",\
         \"text\":\"<task-done>{task}</task-done>\"}}]}},\"parent_tool_use_id\":null}}\n\
         {{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"\",\"num_turns\":1,\
         \"duration_ms\":1,\"total_cost_usd\":0}}\n"
    );
    let _ = std::io::stdout().write_all(answer.as_bytes());
}
