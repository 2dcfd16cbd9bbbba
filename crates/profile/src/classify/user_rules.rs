//! Tables of libraries and of functions outside the kernel.

use crate::category::Category::{self, Application, Checksums, Libc, Tls, Unknown};

/// Libraries, by the beginning of their file names.
const LIBRARIES: &[(Category, &[&str])] = &[
    (
        Libc,
        &[
            "libc.",
            "libc-",
            "ld-",
            "libpthread",
            "libm.",
            "libm-",
            "librt.",
            "libdl",
            "[v",
            "ld.so",
        ],
    ),
    (
        Tls,
        &["libssl", "libcrypto", "libgnutls", "libnettle", "libhogweed", "libmbed", "libwolfssl"],
    ),
    (Checksums, &["libisal", "libxxhash"]),
    (Unknown, &["[anonymous]", "//anon", "[heap]", "[stack]"]),
];

/// Functions by a part of their names. Checksums come first: SHA is part of TLS libraries.
const FUNCTIONS: &[(Category, &[&str])] = &[
    (
        Checksums,
        &[
            "adler32",
            "crc32",
            "crc64",
            "CRC32",
            "md5",
            "MD5",
            "sha1",
            "SHA1",
            "sha256",
            "SHA256",
            "sha512",
            "SHA512",
            "xxh",
            "XXH",
            "XrdCks",
            "XrdOucCRC",
            "hither_checksum",
        ],
    ),
    (
        Tls,
        &[
            "rustls",
            "ring::",
            "ring_core",
            "aes_gcm",
            "aesni",
            "chacha20",
            "ChaCha20",
            "poly1305",
            "gcm_",
            "EVP_",
            "SSL_",
            "ssl3_",
            "tls1_",
            "tls13_",
            "CRYPTO_",
        ],
    ),
];

/// The category of a function of a module.
pub(super) fn category(module: &str, function: Option<&str>) -> Category {
    let by_function = function.and_then(|name| {
        let contains = |parts: &&[&str]| parts.iter().any(|part| name.contains(part));
        FUNCTIONS.iter().find(|(_, parts)| contains(parts)).map(|(category, _)| *category)
    });
    let begins = |names: &&[&str]| names.iter().any(|name| module.starts_with(name));
    let by_module =
        LIBRARIES.iter().find(|(_, names)| begins(names)).map(|(category, _)| *category);
    by_function.or(by_module).unwrap_or(Application)
}

/// The part of a program that a function belongs to: the crate of a Rust function, if its name
/// shows it; otherwise the file.
pub(super) fn part<'a>(module: &'a str, function: Option<&'a str>) -> &'a str {
    let Some((path, _)) = function.and_then(|name| name.split_once("::")) else { return module };
    // `<hyper::Body as core::Trait>::poll` belongs to the type, not to the trait.
    let name = path.trim_start_matches(['<', '&', '_', '*']);
    let name = name.rsplit(' ').next().unwrap_or(name);
    let is_crate = |name: &str| {
        name.starts_with(|it: char| it.is_ascii_lowercase())
            && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
    };
    // Functions of C++ contain `::` only in demangled names, and these names are not demangled.
    if is_crate(name) { name } else { module }
}
