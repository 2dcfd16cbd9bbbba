//! Valid chains, and all kinds of invalid ones.

use crate::x509::proxy_chain::*;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, DnValue, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

/// A time in 2025, in seconds since 1970.
const NOW: i64 = 1_750_000_000;
const INHERIT: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x15\x01";
const INDEPENDENT: &[u8] = b"\x2b\x06\x01\x05\x05\x07\x15\x02";
const LIMITED: &[u8] = b"\x2b\x06\x01\x04\x01\x9b\x50\x01\x01\x01\x09";

/// Makes one property invalid.
type Change = fn(&mut CertificateParams);

struct Made {
    params: CertificateParams,
    key: KeyPair,
    der: CertificateDer<'static>,
}

fn params(names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    // rcgen allows each type once per name: these types represent a name of several parts.
    let types = [DnType::OrganizationName, DnType::OrganizationalUnitName, DnType::CommonName];
    for (kind, name) in types.into_iter().zip(names) {
        params.distinguished_name.push(kind, DnValue::Utf8String((*name).to_owned()));
    }
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    params
}

fn info(most: Option<u8>, policy: &[u8]) -> CustomExtension {
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
    let language = [&[6, length(policy)], policy].concat();
    let policy = [&[0x30, length(&language)], language.as_slice()].concat();
    let most = most.map_or_else(Vec::new, |most| vec![2, 1, most]);
    let content = [most, policy].concat();
    let content = [&[0x30, length(&content)], content.as_slice()].concat();
    let oid = [1, 3, 6, 1, 5, 5, 7, 1, 14];
    let mut extension = CustomExtension::from_oid_content(&oid, content);
    extension.set_criticality(true);
    extension
}

fn person() -> Made {
    let params = params(&["Grid", "Alice"]);
    let key = KeyPair::generate().unwrap();
    let der = params.self_signed(&key).unwrap().der().clone();
    Made { params, key, der }
}

fn signed(issuer: &Made, change: impl FnOnce(&mut CertificateParams)) -> Made {
    let key = KeyPair::generate().unwrap();
    let mut proxy = params(&["Grid", "Alice", "12345"]);
    proxy.custom_extensions.push(info(None, INHERIT));
    change(&mut proxy);
    let by = Issuer::from_params(&issuer.params, &issuer.key);
    let der = proxy.signed_by(&key, &by).unwrap().der().clone();
    Made { params: proxy, key, der }
}

fn behind(chain: &[&Made]) -> Result<usize, ProxyChainError> {
    let chain: Vec<_> = chain.iter().map(|made| made.der.clone()).collect();
    end_entity_index(&chain, NOW)
}

#[test]
fn the_end_entity_is_found_behind_its_proxies() {
    let person = person();
    assert_eq!(behind(&[&person]), Ok(0));
    assert_eq!(behind(&[&signed(&person, |_| ()), &person]), Ok(1));
    let limited = signed(&person, |proxy| proxy.custom_extensions = vec![info(Some(0), LIMITED)]);
    assert_eq!(behind(&[&limited, &person, &person]), Ok(1));
    let name = |chain: &[&Made]| {
        subject_of(&chain.iter().map(|made| made.der.clone()).collect::<Vec<_>>())
    };
    assert_eq!(name(&[&limited, &person]), Some("O=Grid, OU=Alice".parse().unwrap()));
    assert_eq!((name(&[&limited]), name(&[])), (None, None));
    assert!(
        public_key_of(&limited.der).is_some_and(|key| key.ends_with(limited.key.public_key_raw()))
    );
}

#[test]
fn a_value_is_no_sequence_of_names() {
    let mut made = person();
    made.params = params(&["Grid, OU=Alice"]);
    let der = made.params.self_signed(&made.key).unwrap().der().clone();
    let subject = subject_of(&[der]).unwrap();
    assert_eq!(subject.to_string(), "O=Grid\\, OU=Alice");
    assert_ne!(subject, "O=Grid, OU=Alice".parse().unwrap());
    assert_eq!(subject, "O=Grid\\, OU=Alice".parse().unwrap());
}

#[test]
fn every_defect_of_a_proxy_is_found() {
    let person = person();
    let wrong: [(&str, Change); 10] = [
        ("has expired or is not yet valid", |proxy| {
            proxy.not_after = rcgen::date_time_ymd(2024, 1, 1)
        }),
        ("has expired or is not yet valid", |proxy| {
            proxy.not_before = rcgen::date_time_ymd(2029, 1, 1)
        }),
        ("begin with its issuer's", |proxy| {
            let name = proxy.distinguished_name.clone();
            proxy.distinguished_name = rcgen::DistinguishedName::new();
            proxy.distinguished_name.push(DnType::OrganizationName, "Others");
            proxy.distinguished_name.push(DnType::OrganizationalUnitName, "Alice");
            proxy.distinguished_name.push(DnType::CommonName, "12345");
            assert_ne!(name, proxy.distinguished_name);
        }),
        ("plus one common name", |proxy| {
            proxy.distinguished_name.remove(DnType::CommonName).then_some(()).unwrap()
        }),
        ("plus one common name", |proxy| {
            proxy.distinguished_name.push(DnType::LocalityName, "here")
        }),
        ("certificate authority", |proxy| proxy.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
        ("alternative name", |proxy| {
            proxy.subject_alt_names.push(SanType::DnsName("host".try_into().unwrap()));
        }),
        ("unknown proxy policy", |proxy| proxy.custom_extensions = vec![info(None, INDEPENDENT)]),
        ("not critical", |proxy| proxy.custom_extensions[0].set_criticality(false)),
        ("unknown critical extension", |proxy| {
            let mut other = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
            other.set_criticality(true);
            proxy.custom_extensions.push(other);
        }),
    ];
    for (named, change) in wrong {
        let error = behind(&[&signed(&person, change), &person]).unwrap_err();
        assert!(error.to_string().contains(named), "{error}: {named}");
    }
}

#[test]
fn broken_chains_are_rejected() {
    let alice = person();
    let other = person();
    let proxy = signed(&alice, |_| ());
    assert!(
        behind(&[&proxy]).is_err_and(|error| error.to_string().contains("end-entity certificate"))
    );
    // The same name, another key.
    assert!(behind(&[&proxy, &other]).is_err_and(|error| error.to_string().contains("signature")));
    let mut stranger = person();
    stranger.params = params(&["Grid", "Bob"]);
    stranger.der = stranger.params.self_signed(&stranger.key).unwrap().der().clone();
    assert!(
        behind(&[&proxy, &stranger])
            .is_err_and(|error| error.to_string().contains("next certificate"))
    );
    assert!(end_entity_index(&[], NOW).is_err());
    assert!(end_entity_index(&[CertificateDer::from(vec![0x30, 0])], NOW).is_err());
    let mut may_not_sign = person();
    may_not_sign.params.key_usages = vec![KeyUsagePurpose::KeyEncipherment];
    may_not_sign.der = may_not_sign.params.self_signed(&may_not_sign.key).unwrap().der().clone();
    let proxy = signed(&may_not_sign, |_| ());
    assert!(
        behind(&[&proxy, &may_not_sign])
            .is_err_and(|error| error.to_string().contains("may not sign"))
    );
}

#[test]
fn any_proxy_cert_info_is_read_or_rejected() {
    for length in 0..40 {
        for fill in [0, 2, 6, 0x30, 0x80, 0xff] {
            assert!(check_info(&vec![fill; length], 0).is_err());
        }
    }
    let fine = info(Some(1), INHERIT);
    for at in 0..fine.content().len() {
        let mut content = fine.content().to_vec();
        content[at] ^= 0x41;
        let _verdict = check_info(&content, 0);
    }
    assert_eq!(check_info(fine.content(), 1), Ok(()));
    assert!(check_info(fine.content(), 2).is_err());
}
