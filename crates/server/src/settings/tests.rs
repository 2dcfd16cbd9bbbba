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

/// The error of these settings, or else their warnings.
fn exposure(text: &str) -> Result<Vec<String>> {
    let settings = Settings::from_toml(text).unwrap();
    settings.check()?;
    settings.check_exposure(false)?;
    Ok(settings.warnings())
}

#[test]
fn writing_for_everybody_beyond_this_machine_has_to_be_meant() {
    for listen in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "127.0.0.1:1', '192.0.2.1:1"] {
        let text = format!("listen = ['{listen}']\nwrite = true\n");
        let error = exposure(&text).unwrap_err().to_string();
        assert!(error.contains("[auth]") && error.contains("`anonymous_write = true`"), "{error}");
        let meant = exposure(&format!("{text}anonymous_write = true")).unwrap();
        assert!(meant.len() == 1 && meant[0].starts_with("anonymous_write: "), "{meant:?}");
        assert_eq!(exposure(&format!("{text}[auth]")).unwrap(), [""; 0]);
        assert_eq!(exposure(&text.replace("true", "false")).unwrap(), [""; 0]);
        assert!(Settings::from_toml(&text).unwrap().check_exposure(true).is_ok());
    }
    for listen in ["127.0.0.1:1", "[::1]:1", "127.1.2.3:1", "[::ffff:127.0.0.1]:1"] {
        let text = format!("listen = ['{listen}']\nwrite = true\n");
        assert_eq!(exposure(&text).unwrap(), [""; 0]);
    }
}

#[test]
fn tokens_in_clear_text_beyond_this_machine_have_to_be_meant() {
    let issuer = "[[auth.issuers]]\nurl = 'https://iam.example'\n";
    let text = format!("listen = ['0.0.0.0:1']\nwrite = true\n[auth]\n{issuer}");
    let error = exposure(&text).unwrap_err().to_string();
    assert!(error.contains("[tls]") && error.contains("`clear_text = true`"), "{error}");
    let meant = exposure(&text.replace("[auth]", "[auth]\nclear_text = true")).unwrap();
    assert!(meant.len() == 1 && meant[0].starts_with("auth.clear_text: "), "{meant:?}");
    let tls = format!("{text}[tls]\ncertificate = 'a'\nkey = 'b'");
    assert_eq!(exposure(&tls).unwrap(), [""; 0]);
    assert_eq!(exposure(&text.replace("0.0.0.0", "127.0.0.1")).unwrap(), [""; 0]);
}

#[test]
fn what_is_doubtful_is_named_in_one_line_each() {
    let certificate = "[[auth.certificates]]\nsubject = 'CN=a'\nfolder = '/'\nallow = ['read']\n";
    let text = format!(
        "metrics = '0.0.0.0:1'\n[auth]\nauthorities = '/ca'\n{certificate}[third_party]\nclear_text = true"
    );
    let warnings = exposure(&text).unwrap();
    for (warning, named) in
        warnings.iter().zip(["auth.certificates ", "metrics: ", "third_party.clear_text: "])
    {
        assert!(warning.starts_with(named) && !warning.contains('\n'), "{warning}");
    }
    assert_eq!(warnings.len(), 3);
}
