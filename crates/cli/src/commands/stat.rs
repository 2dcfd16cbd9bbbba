//! `hither stat`: size and version.

use super::print;
use crate::exit::Failure;
use hither::Client;
use serde_json::json;

pub(super) fn run(client: &Client, url: &str, json: bool) -> Result<(), Failure> {
    let file = client.open(url)?;
    let stat = file.stat(client)?;
    super::tell(&file.places().1);
    let name = file.name();
    if json {
        let object = json!({ "url": name, "size": stat.size, "validator": stat.validator });
        print(&format!("{object}\n"))?;
    } else {
        let validator = stat.validator.as_deref().unwrap_or("none given");
        print(&format!(
            "{name}\n  size     {} bytes ({})\n  version  {validator}\n",
            stat.size,
            super::human(stat.size)
        ))?;
    }
    Ok(())
}
