//! Requests whose commands have no end, in virtual time.

use super::*;
use std::os::unix::net::UnixStream;
use std::process::Command;
use tokio::time::timeout;

/// Far beyond all limits.
const HANGS: Duration = Duration::from_secs(1_000_000);

/// A helper that takes orders and reports nothing, as with commands that cannot be killed.
fn silent_helper() -> (TapeHelper, UnixStream) {
    let (socket, other) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    let _child = Command::new("true").spawn().unwrap();
    (TapeHelper { socket, _child }, other)
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_file_whose_command_cannot_be_killed_gets_503() {
    let (helper, _other) = silent_helper();
    let settings = r#"{"command": ["/bin/true"], "commands": 1, "request_seconds": 3600}"#;
    let settings: TapeSettings = serde_json::from_str(settings).unwrap();
    let door = TapeDoor::new(settings, helper).unwrap();
    // The second one gets no slot: the command of the first still runs.
    for reason in ["reports no end", "have had all slots for 75 s"] {
        let checked = timeout(HANGS, door.check_on_disk("/f")).await;
        let error = checked.expect("a request waits for ever").unwrap_err();
        assert_eq!(error.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(error.what.contains(reason), "{}", error.what);
        assert!(error.fields.iter().any(|(name, _)| *name == header::RETRY_AFTER));
    }
}
