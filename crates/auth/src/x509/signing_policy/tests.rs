use crate::x509::signing_policy::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

const POLICY: &str = "\
# A comment.
access_id_CA   X509   '/C=CH/O=Grid/CN=Authority'
pos_rights     globus CA:sign
cond_subjects  globus '\"/C=CH/O=Grid/*\" \"/C=CH/O=Hosts?/CN=*.example\"'
";

fn policies(text: &str) -> SigningPolicies {
    let mut policies = SigningPolicies::default();
    policies.add(text).unwrap();
    policies
}

/// A certificate with one name, which states another name as its issuer.
fn certificate(subject: &[(DnType, &str)], issuer: &[(DnType, &str)]) -> CertificateDer<'static> {
    let named = |name: &[(DnType, &str)]| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in name {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params
    };
    let mut authority = named(issuer);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(authority, &key);
    named(subject).signed_by(&key, &issuer).unwrap().der().clone()
}

fn grid(name: &str) -> [(DnType, &str); 3] {
    [(DnType::CountryName, "CH"), (DnType::OrganizationName, "Grid"), (DnType::CommonName, name)]
}

fn elsewhere(name: &str) -> [(DnType, &str); 2] {
    [(DnType::OrganizationName, "Elsewhere"), (DnType::CommonName, name)]
}

#[test]
fn an_authority_signs_the_names_of_its_policy() {
    let policies = policies(POLICY);
    let authority = grid("Authority");
    assert_eq!(policies.check(&[certificate(&grid("Alice"), &authority)]), Ok(()));
    let error = policies.check(&[certificate(&elsewhere("Alice"), &authority)]).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("of C=CH, O=Grid, CN=Authority "), "{error}");
    assert!(error.ends_with("the name O=Elsewhere, CN=Alice"), "{error}");
    // Other authorities have no policy, and an authority may be its own issuer.
    assert_eq!(policies.check(&[certificate(&elsewhere("Alice"), &elsewhere("Root"))]), Ok(()));
    assert_eq!(
        SigningPolicies::default().check(&[certificate(&elsewhere("a"), &authority)]),
        Ok(())
    );
}

#[test]
fn an_intermediate_authority_does_not_escape_the_policy_above_it() {
    let policies = policies(POLICY);
    let intermediate = certificate(&grid("Intermediate"), &grid("Authority"));
    let fine = certificate(&grid("Alice"), &grid("Intermediate"));
    let forged = certificate(&elsewhere("Alice"), &grid("Intermediate"));
    assert_eq!(policies.check(&[fine, intermediate.clone()]), Ok(()));
    assert!(policies.check(&[forged.clone(), intermediate.clone()]).is_err());
    // Another certificate of the same name does not hide the authority.
    let decoy = certificate(&grid("Intermediate"), &elsewhere("Root"));
    let circle = certificate(&elsewhere("Root"), &grid("Intermediate"));
    assert!(policies.check(&[forged, decoy, circle, intermediate]).is_err());
}

#[test]
fn policies_are_read_in_each_form_that_grids_have() {
    let rest = "pos_rights globus CA:sign\ncond_subjects globus";
    for (conditions, name, allowed) in [
        ("'\"/O=a/*\" \"/O=b/*\"'", "/O=b/CN=x", true),
        ("'/O=a b/*'", "/O=a b/CN=x", true),
        ("\"/O=a/*\"", "/O=a/CN=x", true),
        ("'\"/o=A/*\"'", "/O=a/CN=x", true),
        ("'\"*\"'", "/O=a", true),
        ("'\"/O=a/E=*\"'", "/O=a/Email=x", true),
        ("'\"/O=a/*/CN=*\"'", "/O=a/OU=b/CN=x", true),
        ("'\"/O=a/*/CN=*\"'", "/O=a/CN=x", false),
        ("'\"/O=a\"'", "/O=a/CN=x", false),
        ("'\"/O=a/*\"'", "/O=ab/CN=x", false),
        ("'\"/O=?/CN=x\"'", "/O=ab/CN=x", false),
        ("''", "/O=a", false),
    ] {
        let text = format!("access_id_CA\tX509 '/CN=ca'\n{rest} {conditions}\n");
        let policies = policies(&text);
        let patterns = &policies.0["/cn=ca"];
        let name = comparable(name);
        let found = patterns.iter().any(|one| matches(one.as_bytes(), name.as_bytes()));
        assert_eq!(found, allowed, "{conditions} {name}");
    }
}

#[test]
fn an_entry_without_the_right_to_sign_allows_nothing() {
    for rest in
        ["", "cond_subjects globus '\"*\"'", "pos_rights globus CA:other\ncond_subjects globus '*'"]
    {
        let policies = policies(&format!("access_id_CA X509 '/C=CH/O=Grid/CN=Authority'\n{rest}"));
        assert!(
            policies.check(&[certificate(&grid("Alice"), &grid("Authority"))]).is_err(),
            "{rest}"
        );
    }
    assert_eq!(SigningPolicies::default().add("something else"), None);
}

#[test]
fn a_folder_gives_its_policies_and_the_files_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.signing_policy"), POLICY).unwrap();
    std::fs::write(folder.path().join("b.signing_policy"), "?").unwrap();
    std::fs::write(folder.path().join("b.pem"), "?").unwrap();
    let (found, unusable) = SigningPolicies::load(folder.path()).unwrap();
    assert_eq!((found, unusable.len()), (policies(POLICY), 1));
    assert!(unusable[0].to_string().contains("b.signing_policy"), "{}", unusable[0]);
    assert!(SigningPolicies::load(&folder.path().join("none")).is_err());
}

#[test]
fn a_star_takes_no_more_time_than_the_product_of_both_lengths() {
    let pattern = "*a".repeat(1_000);
    assert!(!matches(pattern.as_bytes(), "a".repeat(999).as_bytes()));
    assert!(matches(pattern.as_bytes(), "a".repeat(20_000).as_bytes()));
}
