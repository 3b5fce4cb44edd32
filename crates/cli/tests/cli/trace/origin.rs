//! A service on loopback that responds to every request with the same two bytes.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// Its port. It serves until the test ends.
pub(crate) fn start() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    port
}

fn answer(mut stream: TcpStream) {
    let mut asked = [0; 4096];
    // A client may disconnect at any time.
    let _read = stream.read(&mut asked);
    let said = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    let _written = stream.write_all(said.as_bytes());
}
