"""A program that asks for many lists at once, and for each again as soon as it has it.

    python -m tests.hostile.greedy_client PORT CA TOKEN COUNT PATH

It says `connected` when all connections are open, asks when it reads a line, and says `asked`. Lists that are
refused are not asked for again. At the end of its input it says how many answers it had, by status, as JSON.
"""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import sys
from collections import Counter

_END = b"0\r\n\r\n"


def main(port: int, ca: str, token: str, count: int, path: str) -> None:
    context = ssl.create_default_context(cafile=ca)
    waiting = selectors.DefaultSelector()
    waiting.register(sys.stdin, selectors.EVENT_READ)
    connections = []
    for _ in range(count):
        plain = socket.create_connection(("127.0.0.1", port))
        connections.append(context.wrap_socket(plain, server_hostname="127.0.0.1"))
    print("connected", flush=True)
    sys.stdin.readline()
    questions, tails = {}, dict.fromkeys(connections, b"")
    for number, connection in enumerate(connections):
        # No two are equal: equal ones share an answer.
        head = f"GET {path}{number} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        questions[connection] = head.encode()
        connection.sendall(questions[connection])
        connection.setblocking(False)
        waiting.register(connection, selectors.EVENT_READ, connection)
    print("asked", flush=True)
    answers = Counter[str]()
    while True:
        for key, _ in waiting.select():
            if key.data is None:
                print(json.dumps(answers), flush=True)
                return
            connection = key.data
            tail = tails[connection]
            try:
                while part := connection.recv(262_144):
                    if not tail:
                        answers[part[9:12].decode()] += 1
                        if part[9:12] != b"200":
                            waiting.unregister(connection)
                            break
                    tail = (tail + part)[-16:]
                    if tail.endswith(_END):
                        tail = b""
                        connection.sendall(questions[connection])
            except ssl.SSLWantReadError:
                pass
            tails[connection] = tail


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5])
