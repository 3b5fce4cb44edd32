"""The stock `websockets` library on both ends of a tunnel.

websocket_echo.py serve                       an echo server on a free port of 127.0.0.1, which is printed
websocket_echo.py check URL IP:PORT [CAFILE]  connects to IP:PORT as if it were the URL's host, and talks
"""

import socket
import ssl
import sys

from websockets.sync.client import connect
from websockets.sync.server import serve


def echo(peer):
    for message in peer:
        peer.send(message)


def run_server():
    with serve(echo, "127.0.0.1", 0, max_size=None, subprotocols=["echo"]) as server:
        print(server.socket.getsockname()[1], flush=True)
        server.serve_forever()


def check(url, address, authority=None):
    host, port = address.rsplit(":", 1)
    context = ssl.create_default_context(cafile=authority) if authority else None
    more = {"ssl": context} if context else {}
    raw = socket.create_connection((host, int(port)), timeout=10)
    with connect(url, sock=raw, max_size=None, subprotocols=["echo"], open_timeout=10, **more) as peer:
        assert peer.subprotocol == "echo", peer.subprotocol
        for message in ["", "a line", "ä" * 1000, b"", bytes(range(256)) * 4096]:
            peer.send(message)
            answer = peer.recv(timeout=10)
            assert answer == message, f"{len(message)} went, {len(answer)} came back"
        assert peer.ping().wait(10), "no pong"
        peer.close(1000, "done")
        assert peer.close_code == 1000, peer.close_code
    print("5 messages, a ping and a close came back as they went")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            run_server()
        case ["check", *rest]:
            check(*rest)
        case _:
            sys.exit(__doc__)
