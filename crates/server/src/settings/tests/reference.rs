//! The page `docs/reference/server-configuration.md`, made of the types of the settings.
//!
//! The key, the type and the meaning of each row are those of a field, its Rust type and its
//! comment; the defaults are the values of settings that name no more than they have to. The test
//! compares the page with the file; with `HITHER_WRITE_REFERENCE=1` it writes the file.

use crate::settings::Settings;
use std::fmt::Write;
use std::path::Path;
use toml::{Table, Value};

const NOTE: &str =
    "<!-- Generated: HITHER_WRITE_REFERENCE=1 cargo test -p hither-server reference -->";

/// A table of the configuration file.
struct Section {
    /// The header, as the file has it; empty for the keys at the top.
    header: &'static str,
    /// The type of its keys, and the source that defines it.
    name: &'static str,
    source: &'static str,
    /// The keys that have no default, with a value.
    required: &'static str,
}

const SECTIONS: [Section; 12] = [
    Section {
        header: "",
        name: "Settings",
        source: include_str!("../../settings.rs"),
        required: "",
    },
    Section {
        header: "[tls]",
        name: "TlsFiles",
        source: include_str!("../../settings.rs"),
        required: "certificate = 'host.pem'\nkey = 'host.key'",
    },
    Section {
        header: "[network]",
        name: "NetworkSettings",
        source: include_str!("../../connection/socket_options.rs"),
        required: "",
    },
    Section {
        header: "[limits]",
        name: "ServerLimits",
        source: include_str!("../../settings.rs"),
        required: "",
    },
    Section {
        header: "[auth]",
        name: "AuthSettings",
        source: include_str!("../../authorization/settings.rs"),
        required: "",
    },
    Section {
        header: "[[auth.issuers]]",
        name: "IssuerSettings",
        source: include_str!("../../authorization/settings.rs"),
        required: "url = 'https://iam.example/'",
    },
    Section {
        header: "[[auth.issuers.groups]]",
        name: "GroupSettings",
        source: include_str!("../../authorization/settings.rs"),
        required: "name = '/atlas/production'\nfolder = '/atlas'\nallow = ['read']",
    },
    Section {
        header: "[[auth.certificates]]",
        name: "CertificateSettings",
        source: include_str!("../../authorization/settings.rs"),
        required: "subject = 'CN=Alice'\nfolder = '/users/alice'\nallow = ['read']",
    },
    Section {
        header: "[lots]",
        name: "LotSettings",
        source: include_str!("../../lots/settings.rs"),
        required: "bytes = 1000",
    },
    Section {
        header: "[third_party]",
        name: "ThirdPartySettings",
        source: include_str!("../../third_party/settings.rs"),
        required: "",
    },
    Section {
        header: "[tape]",
        name: "TapeSettings",
        source: include_str!("../../backend/tape/settings.rs"),
        required: "command = ['/usr/local/bin/tape']",
    },
    Section {
        header: "[[replicas]]",
        name: "ReplicaSettings",
        source: include_str!("../../referral/replica_map.rs"),
        required: "path = '/store'\nurls = ['https://b.example/store']",
    },
];

/// A field of a type.
struct Field {
    name: String,
    rust_type: String,
    comment: String,
}

impl Section {
    /// The text that opens the table, with the keys that tables around it require.
    fn opening(&self) -> String {
        let issuer = "[[auth.issuers]]\nurl = 'https://iam.example/'\n";
        let around = if self.header == "[[auth.issuers.groups]]" { issuer } else { "" };
        format!("{around}{}\n", self.header)
    }

    /// The comment of the type, up to its first empty line, and its fields.
    fn read(&self) -> (String, Vec<Field>) {
        let (before, after) =
            self.source.split_once(&format!("pub struct {} {{\n", self.name)).unwrap();
        let comments = before.lines().rev().take_while(|line| !line.is_empty());
        let mut comment: Vec<_> = comments.filter_map(|line| line.strip_prefix("///")).collect();
        comment.reverse();
        let comment: Vec<_> =
            comment.into_iter().map(str::trim).take_while(|line| !line.is_empty()).collect();
        let mut fields = Vec::new();
        let mut lines = Vec::new();
        for line in after.lines().take_while(|line| *line != "}").map(str::trim) {
            if let Some(text) = line.strip_prefix("/// ") {
                lines.push(text);
            } else if let Some(field) = line.strip_prefix("pub ") {
                let (name, rust_type) = field.trim_end_matches(',').split_once(": ").unwrap();
                let comment = std::mem::take(&mut lines).join(" ");
                fields.push(Field { name: name.into(), rust_type: rust_type.into(), comment });
            }
        }
        (comment.join(" "), fields)
    }

    /// The keys that the parser knows in this table.
    fn known_keys(&self) -> Vec<String> {
        let text = format!("{}{}\nunknown = 1\n", self.opening(), self.required);
        let error = Settings::from_toml(&text).unwrap_err().to_string();
        let (_, expected) = error.split_once("expected ").unwrap();
        expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// The values of keys that are not named.
    fn defaults(&self) -> Table {
        let text = format!("{}{}\n", self.opening(), self.required);
        let settings = Settings::from_toml(&text).unwrap();
        let mut value = Value::try_from(&settings).unwrap();
        for name in self.header.trim_matches(['[', ']']).split('.').filter(|it| !it.is_empty()) {
            value = match value.as_table_mut().unwrap().remove(name).unwrap() {
                Value::Array(mut tables) => tables.remove(0),
                table => table,
            };
        }
        value.as_table().unwrap().clone()
    }

    fn is_required(&self, key: &str) -> bool {
        self.required.lines().any(|line| line.starts_with(&format!("{key} = ")))
    }

    /// Fails if a required key has a default, or another one has none.
    fn check_required(&self) {
        let keys: Vec<_> = self.required.lines().collect();
        for left_out in &keys {
            let others = keys.iter().filter(|key| key != &left_out).copied();
            let text = self.opening() + &others.collect::<Vec<_>>().join("\n");
            let error = Settings::from_toml(&text).unwrap_err().to_string();
            assert!(error.contains("missing field"), "{left_out}: {error}");
        }
    }
}

/// The type of a value in the file; none for a table, which has a section of its own.
fn toml_type(rust_type: &str) -> Option<&'static str> {
    let inner = rust_type.strip_prefix("Option<").and_then(|it| it.strip_suffix('>'));
    Some(match inner.unwrap_or(rust_type) {
        "bool" => "boolean",
        "usize" | "u64" => "integer",
        "f64" => "number",
        "String" | "PathBuf" | "SocketAddr" => "string",
        "Vec<String>" | "Vec<SocketAddr>" => "array of strings",
        "CrlChecks" => "`\"use\"` or `\"require\"`",
        "Vec<AllowedAction>" => "array of `\"read\"`, `\"create\"`, `\"modify\"`",
        _ => return None,
    })
}

fn row(out: &mut String, section: &Section, field: &Field, kind: &str, defaults: &Table) {
    let default = match defaults.get(&field.name) {
        _ if section.is_required(&field.name) => "required".to_owned(),
        Some(value) => format!("`{value}`"),
        None => "none".to_owned(),
    };
    let Field { name, comment, .. } = field;
    let comment = comment.replace('|', "\\|");
    writeln!(out, "| `{name}` | {kind} | {default} | {comment} |").unwrap();
}

#[test]
fn the_reference_lists_every_key_with_its_default() {
    let mut out = format!(
        "# Server configuration\n\n{NOTE}\n\nThe TOML file of `hither serve --config FILE`. Options of the command \
         come first, then this file. Unknown keys are errors. The [guide](../guides/serving.md) explains how the parts \
         work together, and which of them a reload changes; [serve.toml](../../packaging/serve.toml) is an example.\n\n"
    );
    for section in &SECTIONS {
        let (comment, fields) = section.read();
        let names: Vec<_> = fields.iter().map(|field| field.name.clone()).collect();
        assert_eq!(names, section.known_keys(), "{}", section.name);
        section.check_required();
        let header = if section.header.is_empty() { "Keys at the top" } else { section.header };
        write!(
            out,
            "## {}\n\n",
            if section.header.is_empty() { header.to_owned() } else { format!("`{header}`") }
        )
        .unwrap();
        write!(out, "{comment}\n\n| key | type | default | meaning |\n|---|---|---|---|\n")
            .unwrap();
        let defaults = section.defaults();
        for field in &fields {
            if let Some(kind) = toml_type(&field.rust_type) {
                row(&mut out, section, field, kind, &defaults);
            } else {
                let inner = SECTIONS.iter().any(|it| field.rust_type.contains(it.name));
                assert!(inner, "no section for {}: {}", field.name, field.rust_type);
            }
        }
        out.push('\n');
    }
    let page =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/server-configuration.md");
    let out = format!("{}\n", out.trim_end());
    if std::env::var_os("HITHER_WRITE_REFERENCE").is_some() {
        std::fs::write(&page, out).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(found == out, "docs/reference/server-configuration.md is out of date: {NOTE}");
}
