//! The configuration that packages install in /etc/hither.

use hither_server::Settings;

const EXAMPLE: &str = include_str!("../../../../../packaging/serve.toml");

#[test]
fn the_example_is_a_configuration_as_it_stands_and_with_every_optional_line() {
    let settings = Settings::from_toml(EXAMPLE).unwrap();
    assert!(settings.listen.iter().all(|address| address.ip().is_loopback()) && !settings.write);

    // A comment has a space behind its sign, an optional setting has none.
    let uncomment = |line: &'static str| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') => setting,
        _ => line,
    };
    let all: Vec<&str> = EXAMPLE.lines().map(uncomment).collect();
    let settings = Settings::from_toml(&all.join("\n")).unwrap();
    assert!(settings.write && settings.tls.is_some() && settings.lots.is_some());
    assert!(settings.auth.is_some() && settings.third_party.is_some());
    assert_eq!(settings.limits, Settings::new("/").limits);
}
