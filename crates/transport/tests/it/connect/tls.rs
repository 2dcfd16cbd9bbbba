//! TLS: trusted and untrusted servers, the errors, and resumed sessions.

use crate::connect::dialing::Says;
use crate::fixture::{LARGE, THREE, content, network, peer, read, source, source_on};
use hither_core::{Error, ErrorKind};
use hither_testkit::mock_http::{Fault, FaultTrigger, MockHttpServer};
use hither_transport::{Identity, TransportConfig};
use rcgen::{CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;
pub(crate) type Pair = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

pub(crate) fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn key_of(pair: &KeyPair) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.serialize_der()))
}

pub(crate) fn params(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>()).unwrap()
}

pub(crate) fn signed(params: CertificateParams, by: &Authority) -> Pair {
    let key = KeyPair::generate().unwrap();
    (vec![params.signed_by(&key, by).unwrap().der().clone()], key_of(&key))
}

pub(crate) fn trusting(authority: &Authority) -> TransportConfig {
    let mut config = TransportConfig::default();
    config.max_connections = 1;
    config.tls.system_roots = false;
    config.tls.roots = vec![authority.der().clone()];
    config
}

const VERSIONS: &[&SupportedProtocolVersion] = rustls::ALL_VERSIONS;

fn server(pair: Pair) -> ServerConfig {
    builder(VERSIONS).with_no_client_auth().with_single_cert(pair.0, pair.1).unwrap()
}

fn builder(
    versions: &[&'static SupportedProtocolVersion],
) -> rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap()
}

/// Events at the server's end of TLS connections.
#[derive(Debug, Default)]
struct Seen {
    kinds: Vec<HandshakeKind>,
    /// Certificates that the last client sent.
    chain: Vec<CertificateDer<'static>>,
}

/// A TLS server in front of a mock server.
struct Front {
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

impl Front {
    async fn of(peer: &MockHttpServer, config: ServerConfig) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let behind: SocketAddr =
            peer.url()["http://".len()..].split('/').next().unwrap().parse().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let (acceptor, told) = (TlsAcceptor::from(Arc::new(config)), Arc::clone(&seen));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, told) = (acceptor.clone(), Arc::clone(&told));
                tokio::spawn(async move {
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    {
                        let (_, session) = stream.get_ref();
                        let mut seen = told.lock().unwrap();
                        seen.kinds.extend(session.handshake_kind());
                        seen.chain = session.peer_certificates().unwrap_or_default().to_vec();
                    }
                    let mut to = TcpStream::connect(behind).await.unwrap();
                    // Any result is accepted.
                    drop(tokio::io::copy_bidirectional(&mut stream, &mut to).await);
                });
            }
        });
        Self { address, seen }
    }

    fn url(&self, host: &str) -> String {
        format!("https://{host}:{}/x", self.address.port())
    }
}

async fn refusal(front: &Front, host: &str, config: TransportConfig) -> Error {
    read(&source(&front.url(host), config), &THREE).await.unwrap_err()
}

#[tokio::test]
async fn bytes_are_exact_for_every_version_and_name() {
    let authority = authority("the authority");
    for version in VERSIONS {
        let (chain, key) = signed(params(&["localhost", "127.0.0.1"]), &authority);
        let config = builder(&[*version]).with_no_client_auth().with_single_cert(chain, key);
        let peer = peer(LARGE, []);
        let front = Front::of(&peer, config.unwrap()).await;
        for host in ["localhost", "127.0.0.1"] {
            let source = source(&front.url(host), trusting(&authority));
            let got = read(&source, &THREE).await.unwrap();
            got.is_exact(&content(LARGE), &THREE).unwrap();
        }
    }
}

#[tokio::test]
async fn handshakes_count_as_round_trips() {
    let authority = authority("the authority");
    for (version, round_trips) in [(&rustls::version::TLS13, 2), (&rustls::version::TLS12, 3)] {
        let (chain, key) = signed(params(&["localhost"]), &authority);
        let config = builder(&[version]).with_no_client_auth().with_single_cert(chain, key);
        let peer = peer(LARGE, []);
        let front = Front::of(&peer, config.unwrap()).await;
        let network = network(trusting(&authority));
        read(&source_on(&network, &front.url("localhost")), &[0..1]).await.unwrap();
        assert_eq!(network.counters().totals().round_trips, round_trips);
    }
}

#[tokio::test]
async fn an_unknown_authority_is_not_trusted_and_named() {
    let (known, unknown) = (authority("known"), authority("stranger"));
    let front = Front::of(&peer(LARGE, []), server(signed(params(&["localhost"]), &unknown))).await;
    let error = refusal(&front, "localhost", trusting(&known)).await;
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(
        error.to_string().contains("CN=stranger") && error.to_string().contains("X509_CERT_DIR"),
        "{error}"
    );
    let mut careless = trusting(&known);
    careless.tls.insecure = true;
    let peer = peer(LARGE, []);
    let front = Front::of(&peer, server(signed(params(&["other"]), &unknown))).await;
    read(&source(&front.url("localhost"), careless), &THREE).await.unwrap();
}

#[tokio::test]
async fn a_self_signed_certificate_is_named_as_such() {
    let key = KeyPair::generate().unwrap();
    let certificate = params(&["localhost"]).self_signed(&key).unwrap();
    let pair = (vec![certificate.der().clone()], key_of(&key));
    let front = Front::of(&peer(LARGE, []), server(pair)).await;
    let error = refusal(&front, "localhost", trusting(&authority("known"))).await;
    assert!(error.to_string().contains("self-signed"), "{error}");
}

#[tokio::test]
async fn a_trusted_certificate_is_accepted_from_the_server_itself() {
    // A self-signed certificate of an authority, as `openssl req -x509` makes it; and a certificate
    // that an unknown authority has signed.
    let usual = |names: &[&str]| {
        let mut usual = params(names);
        usual.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        (vec![usual.self_signed(&key).unwrap().der().clone()], key_of(&key))
    };
    let others = authority("unknown");
    for (chain, key) in [usual(&["localhost"]), signed(params(&["localhost"]), &others)] {
        let peer = peer(LARGE, []);
        let front = Front::of(&peer, server((chain.clone(), key))).await;
        let mut config = trusting(&authority("known"));
        let error = refusal(&front, "localhost", config.clone()).await.to_string();
        assert!(error.contains("not trusted") && error.contains("--ca"), "{error}");
        config.tls.roots.extend(chain);
        read(&source(&front.url("localhost"), config.clone()), &THREE).await.unwrap();
        let error = refusal(&front, "127.0.0.1", config).await.to_string();
        assert!(error.contains("is for localhost"), "{error}");
    }
    let (chain, key) = usual(&["localhost"]);
    let front = Front::of(&peer(LARGE, []), server((chain, key))).await;
    let mut config = trusting(&authority("known"));
    config.tls.roots.extend(usual(&["localhost"]).0);
    let error = refusal(&front, "localhost", config).await.to_string();
    assert!(error.contains("self-signed"), "another one of the same name: {error}");
}

#[tokio::test]
async fn an_expired_certificate_is_not_accepted_because_it_is_trusted() {
    let mut expired = params(&["localhost"]);
    expired.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    expired.not_before = rcgen::date_time_ymd(2019, 1, 1);
    expired.not_after = rcgen::date_time_ymd(2020, 2, 29);
    let key = KeyPair::generate().unwrap();
    let chain = vec![expired.self_signed(&key).unwrap().der().clone()];
    let front = Front::of(&peer(LARGE, []), server((chain.clone(), key_of(&key)))).await;
    let mut config = trusting(&authority("known"));
    config.tls.roots.extend(chain);
    let error = refusal(&front, "localhost", config).await.to_string();
    assert!(error.contains("expired on Sat, 29 Feb 2020"), "{error}");
}

#[tokio::test]
async fn an_expired_certificate_is_named_as_such() {
    let authority = authority("the authority");
    let mut params = params(&["localhost"]);
    params.not_before = rcgen::date_time_ymd(2019, 1, 1);
    params.not_after = rcgen::date_time_ymd(2020, 2, 29);
    let front = Front::of(&peer(LARGE, []), server(signed(params, &authority))).await;
    let error = refusal(&front, "localhost", trusting(&authority)).await;
    assert_eq!(error.kind(), ErrorKind::Protocol);
    assert!(error.to_string().contains("expired on Sat, 29 Feb 2020"), "{error}");
}

#[tokio::test]
async fn the_error_names_the_hosts_of_a_certificate_for_others() {
    let authority = authority("the authority");
    let pair = signed(params(&["one.example", "*.two.example", "192.0.2.1"]), &authority);
    let front = Front::of(&peer(LARGE, []), server(pair)).await;
    for host in ["localhost", "127.0.0.1"] {
        let error = refusal(&front, host, trusting(&authority)).await;
        let said = error.to_string();
        assert!(
            said.contains("one.example, *.two.example, 192.0.2.1") && said.contains(host),
            "{said}"
        );
    }
}

/// A server that requires a client certificate issued by `clients`.
fn insisting(
    pair: Pair,
    clients: &Authority,
    version: &'static SupportedProtocolVersion,
) -> ServerConfig {
    let mut roots = RootCertStore::empty();
    roots.add(clients.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = builder(&[version]).with_client_cert_verifier(verifier.build().unwrap());
    builder.with_single_cert(pair.0, pair.1).unwrap()
}

fn client(name: &str, by: &Authority) -> Pair {
    let mut params = params(&[]);
    params.distinguished_name.push(DnType::CommonName, name);
    signed(params, by)
}

#[tokio::test]
async fn a_client_certificate_is_sent_and_its_absence_explained() {
    let (servers, clients) = (authority("servers"), authority("clients"));
    for version in VERSIONS {
        let pair = signed(params(&["localhost"]), &servers);
        let peer = peer(LARGE, []);
        let front = Front::of(&peer, insisting(pair, &clients, version)).await;
        let error = refusal(&front, "localhost", trusting(&servers)).await;
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{version:?}: {error:?}");
        assert!(error.to_string().contains("requires a client certificate"), "{error}");

        let mut config = trusting(&servers);
        let (chain, key) = client("somebody", &authority("others"));
        config.tls.identity = Some(Arc::new(Identity::new(chain, key).unwrap()));
        let error = refusal(&front, "localhost", config).await;
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{version:?}: {error:?}");
        assert!(error.to_string().contains("rejects the client certificate"), "{error}");

        let mut config = trusting(&servers);
        let (chain, key) = client("me", &clients);
        config.tls.identity = Some(Arc::new(Identity::new(chain, key).unwrap()));
        read(&source(&front.url("localhost"), config), &THREE).await.unwrap();
    }
}

/// A verifier that accepts any client certificate, like servers that verify proxy certificates
/// themselves.
#[derive(Debug)]
struct TakesProxies(rustls::crypto::WebPkiSupportedAlgorithms);

impl rustls::server::danger::ClientCertVerifier for TakesProxies {
    fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::server::danger::ClientCertVerified, rustls::Error> {
        Ok(rustls::server::danger::ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[tokio::test]
async fn a_proxy_certificate_is_sent_with_its_whole_chain() {
    let (servers, clients) = (authority("servers"), authority("clients"));
    // The user's certificate, which is not an authority, signs the proxy certificate, which has a
    // critical extension (RFC 3820 section 3.8).
    let mut person = params(&[]);
    person.distinguished_name.push(DnType::CommonName, "me");
    let person =
        CertifiedIssuer::signed_by(person, KeyPair::generate().unwrap(), &clients).unwrap();
    let mut proxy = params(&[]);
    proxy.distinguished_name.push(DnType::CommonName, "12345");
    let mut info = CustomExtension::from_oid_content(
        &[1, 3, 6, 1, 5, 5, 7, 1, 14],
        vec![0x30, 0x0c, 0x30, 0x0a, 6, 8, 0x2b, 6, 1, 5, 5, 7, 21, 1],
    );
    info.set_criticality(true);
    proxy.custom_extensions = vec![info];
    let key = KeyPair::generate().unwrap();
    let proxy = proxy.signed_by(&key, &person).unwrap();
    let chain = vec![proxy.der().clone(), person.der().clone()];

    let provider = rustls::crypto::ring::default_provider();
    let takes = TakesProxies(provider.signature_verification_algorithms);
    let (server_chain, server_key) = signed(params(&["localhost"]), &servers);
    let config = builder(VERSIONS)
        .with_client_cert_verifier(Arc::new(takes))
        .with_single_cert(server_chain, server_key);
    let peer = peer(LARGE, []);
    let front = Front::of(&peer, config.unwrap()).await;
    let mut config = trusting(&servers);
    config.tls.identity = Some(Arc::new(Identity::new(chain.clone(), key_of(&key)).unwrap()));
    read(&source(&front.url("localhost"), config), &THREE).await.unwrap();
    assert_eq!(front.seen.lock().unwrap().chain, chain);
}

#[test]
fn a_key_that_does_not_match_its_certificate_is_rejected() {
    let authority = authority("a");
    let (chain, key) = client("me", &authority);
    let (_, other) = client("you", &authority);
    assert!(format!("{:?}", Identity::new(chain.clone(), key).unwrap()).contains("1 certificates"));
    for (chain, key) in [(chain, other.clone_key()), (vec![], other)] {
        assert_eq!(Identity::new(chain, key).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn http_on_a_tls_port_is_detected() {
    let authority = authority("the authority");
    let front =
        Front::of(&peer(LARGE, []), server(signed(params(&["localhost"]), &authority))).await;
    let url = format!("http://{}/x", front.address);
    let error = read(&source(&url, trusting(&authority)), &THREE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error:?}");
    assert!(error.to_string().contains("https://"), "{error}");
}

#[tokio::test]
async fn tls_on_an_http_port_is_detected() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/x", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut hello = [0; 16];
        stream.read_exact(&mut hello).await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        // Reads until the client has closed the connection, so that it is not reset.
        drop(stream.read_to_end(&mut Vec::new()).await);
    });
    let error = read(&source(&url, trusting(&authority("a"))), &THREE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error:?}");
    assert!(error.to_string().contains("http:// rather than https://"), "{error}");
}

#[tokio::test]
async fn a_stalled_handshake_ends_in_a_first_byte_timeout() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/x", listener.local_addr().unwrap());
    let mut config = trusting(&authority("a"));
    config.connect_timeout = Duration::from_millis(100);
    let error = read(&source(&url, config), &THREE).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
    assert!(error.to_string().contains("does not respond to the TLS handshake"), "{error}");
}

#[tokio::test]
async fn an_address_that_fails_in_the_handshake_is_skipped() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sick = listener.local_addr().unwrap();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let authority = authority("the authority");
    let peer = peer(LARGE, []);
    let front = Front::of(&peer, server(signed(params(&["several.example"]), &authority))).await;
    let mut config = trusting(&authority);
    config.resolver = Arc::new(Says(vec![sick, front.address]));
    let source = source(&front.url("several.example"), config);
    let got = read(&source, &THREE).await.unwrap();
    got.is_exact(&content(LARGE), &THREE).unwrap();
}

#[tokio::test]
async fn a_second_connection_is_resumed() {
    let authority = authority("the authority");
    for version in VERSIONS {
        // The connection is closed after each response.
        let peer = peer(LARGE, [(FaultTrigger::Always, Fault::CloseAfter)]);
        let (chain, key) = signed(params(&["localhost"]), &authority);
        let config = builder(&[*version]).with_no_client_auth().with_single_cert(chain, key);
        let front = Front::of(&peer, config.unwrap()).await;
        let network = network(trusting(&authority));
        for _ in 0..3 {
            let source = source_on(&network, &front.url("localhost"));
            read(&source, &[0..1]).await.unwrap();
        }
        let kinds = front.seen.lock().unwrap().kinds.clone();
        let expected = [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed];
        assert_eq!(kinds, expected, "{version:?}");
    }
}
