"""An HTTPS server that answers with given documents, and a command that asks it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

from tests.support.authority import Authority
from tests.support.https_answers import serving

Ask = Callable[..., str]


class Answering(BaseHTTPRequestHandler):
    """Answers with the documents that it has been given, in turn."""

    protocol_version = "HTTP/1.1"
    documents: Final[list[Any]] = []

    def do_GET(self) -> None:
        document = self.documents.pop(0)
        self.documents.append(document)
        content = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def asking(command: Callable[[Sequence[str]], int], directory: Path) -> Iterator[Ask]:
    """Within it, the function runs the command on a server that answers so, and returns what it prints."""
    authority = Authority(directory / "pki")
    with serving(authority.issue("server"), Answering) as url:

        def run(*documents: Any, arguments: Sequence[str] = ()) -> str:
            Answering.documents[:] = documents
            whom = [f"--server={url}", f"--certificate-authority={authority.ca}"]
            with redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) as out:
                command([*whom, *arguments])
                out.flush()
                printed: bytes = out.buffer.getvalue()
            return printed.decode()

        yield run
