//! Valid tokens, and all kinds of invalid ones.

use super::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

const ISSUER: &str = "https://iam.example";
/// An RSA key, and a token that OpenSSL has signed with it.
const RSA_MODULUS: &str = "q6LBUOmfo1xX2DQM6AXKN0TOsXswwzuvVoIyQWopqw2P30s8w9rRGPHYlbNi6zYDEFiB-UqsSMts0tCo2TRHDU_yV-C0RpMK5FBitsgwXFxddTAxQSYr25w-50OKgWUTKkVdZkRZmKJMPKcuwtGz7lW4c6mNdNZp1bLkMRugMHuDMnDUzFmdy69X6SMVj7JWjajRLdrKEHaCOqskxRd0AwNsfDiVZo3FOqAzEiTKzOsQda-OE4JL5CUvDFFyKWdpIdihWXpl-Sc6KMLZfscuYuya3boaPTsD_MXoxjXommmhoalm9Y51-nlyKTHNOtLBV2bUbXNNzo41hz6rny2gRQ";
const RSA_TOKEN: &str = "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogInIifQ.eyJpc3MiOiAiaHR0cHM6Ly9pYW0uZXhhbXBsZSIsICJzdWIiOiAiYWxpY2UifQ.bJvSEQhBOho2d733M97QFWR009rN31UwGb3IuhX4Psx844ozEyohFRru4WYqQgcq9UQW1wFXijzELnaBmHyPNo-E2WQQHUn_Ar9BYRgRMShm3wFc7MtaZWFh58GB7hkfl1q5SeloZMEgiGwrj8F9pGTKs9cppWN4RFDDyenlnBguFX3cYTHT7-05evy7eJOwN8mDHNEoayby63b48E_neC63G7umMNo_UJ-wkk9ZY3sq8r9zrG5Gq5OtTp0472UQlie8AyI3QjtXwlmljM8S5vYgKPE_qrtw_rzGI9N74ZlUvABKbZiLvur4ZY3NPwSyf8Te2Zi2OWNOeWbWB_QE1A";

struct Signer(EcdsaKeyPair);

impl Signer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let kind = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(kind, &random).unwrap();
        Self(EcdsaKeyPair::from_pkcs8(kind, pkcs8.as_ref(), &random).unwrap())
    }

    fn keys(&self, id: &str) -> Jwks {
        let (x, y) = self.0.public_key().as_ref()[1..].split_at(32);
        let x = URL_SAFE_NO_PAD.encode(x);
        let y = URL_SAFE_NO_PAD.encode(y);
        let key = format!(r#"{{"kty":"EC","crv":"P-256","kid":"{id}","x":"{x}","y":"{y}"}}"#);
        Jwks::parse(format!(r#"{{"keys":[{key}]}}"#).as_bytes()).unwrap()
    }

    fn sign(&self, header: &str, payload: &str) -> String {
        let message = format!("{}.{}", encode(header), encode(payload));
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn encode(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

fn rsa_keys() -> Jwks {
    let key = format!(r#"{{"kty":"RSA","kid":"r","n":"{RSA_MODULUS}","e":"AQAB"}}"#);
    Jwks::parse(format!(r#"{{"keys":[{key}]}}"#).as_bytes()).unwrap()
}

fn verify(text: &str, keys: &Jwks) -> Result<VerifiedJwt, JwtError> {
    UnverifiedJwt::parse(text)?.verify(keys)
}

#[test]
fn signatures_of_both_algorithms_are_accepted() {
    let token = verify(RSA_TOKEN, &rsa_keys()).unwrap();
    assert_eq!((token.issuer(), token.claims().subject.as_deref()), (ISSUER, Some("alice")));
    let signer = Signer::new();
    let payload = r#"{"iss":"https://iam.example","exp":7,"iat":3,"wlcg.groups":["/a","/b"]}"#;
    for header in [r#"{"alg":"ES256","kid":"k","typ":"JWT"}"#, r#"{"alg":"ES256"}"#] {
        let token = verify(&signer.sign(header, payload), &signer.keys("k")).unwrap();
        let claims = token.claims();
        assert_eq!((claims.expires, claims.issued), (Some(7), Some(3)));
        assert_eq!(claims.groups, ["/a", "/b"]);
    }
}

#[test]
fn hostile_headers_are_rejected() {
    let signer = Signer::new();
    let keys = signer.keys("k");
    let payload = r#"{"iss":"https://iam.example"}"#;
    let own = r#"{"alg":"ES256","kid":"k","jwk":{"kty":"EC"},"jku":"https://evil/","x5u":"https://evil/"}"#;
    assert!(verify(&signer.sign(own, payload), &keys).is_ok(), "keys in the header are ignored");
    assert_eq!(verify(&Signer::new().sign(own, payload), &keys), Err(JwtError::Signature));
    for (header, fault) in [
        (r#"{"alg":"none"}"#, JwtError::Algorithm),
        (r#"{"alg":"None","kid":"k"}"#, JwtError::Algorithm),
        (r#"{"alg":"HS256","kid":"k"}"#, JwtError::Algorithm),
        (r#"{"alg":"es256","kid":"k"}"#, JwtError::Algorithm),
        (r#"{"alg":["ES256"],"kid":"k"}"#, JwtError::Header),
        (r#"{"kid":"k"}"#, JwtError::Header),
        (r#"{"alg":"ES256","alg":"none"}"#, JwtError::Header),
        (r#"{"alg":"ES256","kid":7}"#, JwtError::Header),
        (r#"{"alg":"ES256","kid":"k","crit":["b64"],"b64":false}"#, JwtError::Header),
        ("[]", JwtError::Header),
        ("", JwtError::Header),
        (r#"{"alg":"ES256","kid":"l"}"#, JwtError::UnknownKey),
        (r#"{"alg":"ES256","kid":"../../k"}"#, JwtError::UnknownKey),
        (r#"{"alg":"RS256","kid":"k"}"#, JwtError::UnknownKey),
    ] {
        assert_eq!(verify(&signer.sign(header, payload), &keys), Err(fault), "{header}");
    }
    let deep = format!(r#"{{"alg":"ES256","x":{}{}}}"#, "[".repeat(9_000), "]".repeat(9_000));
    assert!(verify(&signer.sign(&deep, payload), &keys).is_ok(), "unknown fields are ignored");
}

#[test]
fn a_public_key_is_no_secret_to_sign_with() {
    let header = encode(r#"{"alg":"HS256","kid":"r"}"#);
    let message = format!("{header}.{}", encode(r#"{"iss":"https://iam.example"}"#));
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, RSA_MODULUS.as_bytes());
    let tag = ring::hmac::sign(&secret, message.as_bytes());
    let text = format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag));
    assert_eq!(verify(&text, &rsa_keys()), Err(JwtError::Algorithm));
}

#[test]
fn hostile_payloads_are_rejected() {
    let signer = Signer::new();
    let keys = signer.keys("k");
    let header = r#"{"alg":"ES256","kid":"k"}"#;
    for (payload, fault) in [
        ("{}", JwtError::Claim("iss")),
        (r#"{"iss":["https://iam.example"]}"#, JwtError::Claim("iss")),
        (r#"{"iss":"i","exp":"never"}"#, JwtError::Claim("exp")),
        (r#"{"iss":"i","exp":1e300}"#, JwtError::Claim("exp")),
        (r#"{"iss":"i","nbf":{}}"#, JwtError::Claim("nbf")),
        (r#"{"iss":"i","aud":{"a":"ANY"}}"#, JwtError::Claim("aud")),
        (r#"{"iss":"i","scope":7}"#, JwtError::Claim("scope")),
        (r#"{"iss":"i","wlcg.groups":true}"#, JwtError::Claim("wlcg.groups")),
        (r#"{"iss":"i","iss":"j"}"#, JwtError::NotAJwt(MalformedJwt::Damaged)),
        ("7", JwtError::NotAJwt(MalformedJwt::Damaged)),
        ("", JwtError::NotAJwt(MalformedJwt::Damaged)),
    ] {
        assert_eq!(verify(&signer.sign(header, payload), &keys), Err(fault), "{payload}");
    }
    let deep = format!(r#"{{"iss":"i","aud":{}{}}}"#, "[".repeat(9_000), "]".repeat(9_000));
    assert!(verify(&signer.sign(header, &deep), &keys).is_err());
    let huge = format!(r#"{{"iss":"i","x":"{}"}}"#, "x".repeat(70_000));
    let fault = JwtError::NotAJwt(MalformedJwt::TooLong);
    assert_eq!(verify(&signer.sign(header, &huge), &keys), Err(fault));
}

#[test]
fn no_byte_of_a_token_can_be_changed() {
    let signer = Signer::new();
    let keys = signer.keys("k");
    let payload = r#"{"iss":"https://iam.example","scope":"storage.read:/"}"#;
    let text = signer.sign(r#"{"alg":"ES256","kid":"k"}"#, payload);
    let good = verify(&text, &keys).unwrap();
    for at in 0..text.len() {
        for other in [b'A', b'.', b'=', b'_'] {
            let mut bytes = text.clone().into_bytes();
            if bytes[at] == other {
                continue;
            }
            bytes[at] = other;
            let changed = String::from_utf8(bytes).unwrap();
            // The last character of each part has unused bits; the decoder rejects tokens in which
            // they are set.
            assert!(verify(&changed, &keys).is_err(), "{at} {changed}");
        }
    }
    for cut in 0..text.len() {
        assert!(verify(&text[..cut], &keys).is_err(), "{cut}");
    }
    let again = text.rsplit_once('.').unwrap().0.to_owned() + ".";
    assert_eq!(verify(&again, &keys), Err(JwtError::Signature));
    assert_eq!(good, verify(&text, &keys).unwrap());
}
