//! Tests of dialing addresses, with a resolver set by each test.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;

type Names = Arc<Mutex<BTreeMap<String, Vec<SocketAddr>>>>;

fn dialer(guard: AddressPolicy, authorities: Option<&[u8]>) -> (AddressDialer, Names) {
    let mut dialer = AddressDialer::new(guard, authorities).expect("a dialer");
    let names = Names::default();
    let known = names.clone();
    dialer.resolve = Arc::new(move |name| {
        let found = known.lock().expect("whole").get(&name).cloned();
        let found = found.ok_or_else(|| io::Error::other("no such name"));
        std::future::ready(found).boxed()
    });
    (dialer, names)
}

fn loopback() -> AddressPolicy {
    AddressPolicy::new(vec!["127.0.0.0/8".parse().expect("a network")], &[], &[])
}

fn origin(name: &str, tls: Option<&str>) -> OriginTarget {
    OriginTarget {
        target: OriginAddress::Addresses(Addresses {
            names: vec![name.to_owned()],
            open_networks: Vec::new(),
        }),
        authority: name.to_owned(),
        tls: tls.map(str::to_owned),
    }
}

fn set_addresses(names: &Names, name: &str, addresses: &[SocketAddr]) {
    let mut names = names.lock().expect("whole");
    names.insert(name.to_owned(), addresses.to_vec());
}

async fn dial_until_timeout(dialer: &AddressDialer, origin: &OriginTarget) -> Result<Box<dyn OriginStream>, DialError> {
    let deadline = Instant::now() + Duration::from_secs(5);
    dialer.dial(origin, deadline).await
}

#[tokio::test]
async fn a_name_that_leads_to_the_machine_itself_is_refused_before_it_is_dialled() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let fine: SocketAddr = "192.0.2.1:80".parse().expect("an address");
    let (dialer, names) = dialer(AddressPolicy::default(), None);
    set_addresses(&names, "rebind.example.com:80", &[fine, address]);
    let error = dial_until_timeout(&dialer, &origin("rebind.example.com:80", None)).await;
    let Err(DialError::Forbidden(why)) = error.map(|_| ()) else {
        panic!("the address was dialed");
    };
    assert!(why.contains("loopback"), "{why}");
    let nobody = tokio::time::timeout(Duration::from_millis(20), listener.accept()).await;
    assert!(nobody.is_err(), "the address was dialed");
}

#[tokio::test]
async fn the_next_address_is_tried_where_one_takes_no_connection() {
    let dead = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let gone = dead.local_addr().expect("an address");
    drop(dead);
    let alive = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = alive.local_addr().expect("an address");
    let (dialer, names) = dialer(loopback(), None);
    set_addresses(&names, "two.example.com:80", &[gone, address]);
    let origin = origin("two.example.com:80", None);
    for _ in 0..2 {
        dial_until_timeout(&dialer, &origin)
            .await
            .map(|_| ())
            .expect("connected");
    }
    set_addresses(&names, "two.example.com:80", &[gone]);
    let error = dial_until_timeout(&dialer, &origin).await.map(|_| ());
    assert!(matches!(error, Err(DialError::Unreachable(_))), "{error:?}");
}

#[tokio::test]
async fn tls_is_spoken_to_an_origin_whose_authority_is_known() {
    let made = rcgen::generate_simple_self_signed(["o.example.com".to_owned()]).expect("made");
    let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let certified = crate::certificates::parse_key_pair(pem.as_bytes(), key.as_bytes()).expect("a pair");
    let mut table = crate::routing::RoutingTable::default();
    table
        .certificates
        .insert("o.example.com".to_owned(), Arc::new(certified));
    let table = Arc::new(arc_swap::ArcSwap::from_pointee(table));
    let acceptor = TlsAcceptor::from(crate::certificates::server_config(table));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let serve = async {
        for _ in 0..2 {
            let (stream, _) = listener.accept().await.expect("a caller");
            if let Ok(mut stream) = acceptor.accept(stream).await {
                stream.write_all(b"hello").await.expect("received");
                stream.shutdown().await.expect("closed");
            }
        }
    };
    let dials = async {
        let (trusting, names) = dialer(loopback(), Some(pem.as_bytes()));
        set_addresses(&names, "o.example.com:443", &[address]);
        let origin = origin("o.example.com:443", Some("o.example.com"));
        let mut stream = dial_until_timeout(&trusting, &origin)
            .await
            .map_err(|it| it.to_string());
        let mut text = String::new();
        let stream = stream.as_mut().expect("connected");
        stream.read_to_string(&mut text).await.expect("read");
        assert_eq!(text, "hello");
        let (wary, names) = dialer(loopback(), None);
        set_addresses(&names, "o.example.com:443", &[address]);
        let error = dial_until_timeout(&wary, &origin).await.map(|_| ());
        assert!(matches!(error, Err(DialError::Unreachable(_))), "{error:?}");
    };
    tokio::join!(serve, dials);
}

/// A name that resolves differently the next time is checked again, and a class permits nothing for another class.
#[tokio::test]
async fn every_dial_is_checked_against_its_own_class() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (dialer, names) = dialer(AddressPolicy::default(), None);
    set_addresses(&names, "rebind.example.com:80", &[address]);
    let closed = origin("rebind.example.com:80", None);
    let mut opened = closed.clone();
    opened.target = OriginAddress::Addresses(Addresses {
        names: vec!["rebind.example.com:80".to_owned()],
        open_networks: vec!["127.0.0.0/8".parse().expect("a network")],
    });
    let dial = async |origin: &OriginTarget| dial_until_timeout(&dialer, origin).await.map(|_| ());
    dial(&opened).await.expect("its class permits it");
    let error = dial(&closed).await.expect_err("another class does not");
    let DialError::Forbidden(why) = error else {
        panic!("{error}");
    };
    assert!(
        why.contains("spec.backendNetworks") && !why.contains("127.0.0.1"),
        "{why}"
    );
    for elsewhere in ["10.0.0.1:80", "[::ffff:10.0.0.1]:80", "[fd00:ec2::254]:80"] {
        let elsewhere = elsewhere.parse().expect("an address");
        set_addresses(&names, "rebind.example.com:80", &[address, elsewhere]);
        let error = dial(&opened).await;
        assert!(matches!(error, Err(DialError::Forbidden(_))), "{elsewhere}");
    }
}
