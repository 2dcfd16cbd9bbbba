mod reference;

use super::*;

#[test]
fn the_default_is_read_only_on_loopback() {
    let settings = Settings::new("/data");
    assert!(settings.listen.iter().all(|address| address.ip().is_loopback()));
    assert!(!settings.write && settings.tls.is_none());
    assert!(settings.check().is_ok());
}

#[test]
fn an_error_names_the_invalid_key() {
    for (text, named) in [
        ("lissten = []", "lissten"),
        ("[limits]\nranges = -1", "ranges"),
        ("[limits]\nrange = 1", "range"),
        ("[tls]\nkey = 'k'", "certificate"),
    ] {
        let error = Settings::from_toml(text).unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
    }
    for (text, named) in [
        ("listen = []", "listen"),
        ("[limits]\nranges = 0", "ranges"),
        ("[limits]\nmemory_bytes = 1000", "memory_bytes"),
        ("[limits]\nblock_bytes = 2000000", "block_bytes"),
        ("[limits]\nstall_seconds = nan", "stall_seconds"),
    ] {
        let error = Settings::from_toml(text).unwrap().check().unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
    }
}
