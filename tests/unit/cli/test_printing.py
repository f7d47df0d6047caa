"""Whatever a server or a file says, it commands no terminal: not by messages, names, tables or JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.__main__ import main
from apiserver.cli.printable_text import printable, printable_json, printable_lines
from apiserver.cli.printing import LINE_LENGTH_MAX, print_error, print_json
from apiserver.cli.rewriter import Interrupted
from apiserver.cli.storage import resume_hint
from tests.support.authority import Authority
from tests.support.https_answers import serving

# It sets a terminal's title, colours, turns the direction of writing, and goes back in a line.
HOSTILE: Final = "\x1b]0;title\x07 \x9b31m \u202e \r\n\x7f"

PRINTABLE: Final = {
    "plain": ("name-1 für 世界", "name-1 für 世界"),
    "an escape sequence": ("\x1b[31m", r"\x1b[31m"),
    "a control of C1": ("\x9b31m", r"\x9b31m"),
    "line breaks": ("a\r\nb\u2028c", r"a\r\nb\u2028c"),
    "marks of direction": ("\u202ea", r"\u202ea"),
    "a lone surrogate": ("\udcff", r"\udcff"),
    "what is escaped": (r"\x1b", r"\x1b"),
}


@pytest.mark.parametrize(("text", "shown"), PRINTABLE.values(), ids=PRINTABLE)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters()))
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    assert printable(text).isprintable()
    assert printable_lines(text).replace("\n", "").isprintable()
    printable(text).encode()


@given(st.recursive(st.text(st.characters(codec="utf-8")), st.lists))
def test_json_means_the_same(value: Any) -> None:
    text = orjson.dumps({"a": value}, option=orjson.OPT_INDENT_2).decode()
    shown = printable_json(text)
    assert orjson.loads(shown) == {"a": value}
    assert shown.replace("\n", "").isprintable()


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(f"a  b: {HOSTILE}\nc")
    assert capsys.readouterr().err == ("apiserver: a  b: \\x1b]0;title\\x07 \\x9b31m \\u202e \\x7f c\n")


def test_a_message_of_megabytes_is_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    print_error("a" * 10_000_000)
    assert len(capsys.readouterr().err) == len("apiserver: ...\n") + LINE_LENGTH_MAX


# ---- what commands tell of a server


FAULT: Final = {
    "id": HOSTILE,
    "match": {"name": HOSTILE, "user": HOSTILE},
    "effect": {"type": "Answer", "code": 503, "message": HOSTILE},
    "hits": HOSTILE,
}
CALL: Final = {
    "group": HOSTILE,
    "version": "v1",
    "resource": HOSTILE,
    "deprecatedRelease": "",
    "removedRelease": "1.37",
    "replacement": HOSTILE,
    "user": HOSTILE,
    "userAgent": HOSTILE,
    "count": 1,
    "lastSeen": HOSTILE,
}
CLIENT: Final = {
    **dict.fromkeys(("user", "userAgent", "verb", "group", "resource", "subresource"), HOSTILE),
    **dict.fromkeys(("requests", "seconds", "sentBytes", "refused", "failed", "watches"), 1),
}
DEPRECATIONS: Final = {"release": HOSTILE, "since": HOSTILE, "requests": [CALL]}
RESOURCE: Final = {"name": f"r{HOSTILE}", "namespaced": True, "verbs": ["list", "patch"]}
OBJECT: Final = {"metadata": {"name": HOSTILE, "namespace": HOSTILE}}
# By the beginning of the path: the first that fits.
ANSWERS: Final[dict[str, tuple[int, Any]]] = {
    "POST /debug/faults/compact": (200, {"resourceVersion": HOSTILE}),
    "POST /debug/faults": (200, {"id": HOSTILE}),
    "GET /debug/faults": (200, {"faults": [FAULT]}),
    "GET /debug/clients": (200, {"seconds": 60, "clients": [CLIENT]}),
    "GET /debug/deprecations": (200, DEPRECATIONS),
    "GET /apis/apiregistration.k8s.io": (404, {}),
    "GET /apis": (200, {"groups": []}),
    "GET /api/v1/r": (200, {"metadata": {}, "items": [OBJECT]}),
    "GET /api/v1": (200, {"resources": [RESOURCE]}),
}


class Hostile(BaseHTTPRequestHandler):
    """Answers what commands understand, and refuses all else, with what a terminal obeys."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        line = f"{self.command} {self.path}"
        fitting = (answer for begin, answer in ANSWERS.items() if line.startswith(begin))
        status, document = next(fitting, (403, {"message": HOSTILE}))
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815  what http.server calls them

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names a server that tells lies."""
    directory = tmp_path_factory.mktemp("hostile")
    authority = Authority(directory / "pki")
    with serving(authority.issue("server"), Hostile) as url:
        path = directory / "config"
        cluster = {"server": url, "certificate-authority": str(authority.ca)}
        path.write_text(
            json.dumps(
                {
                    "clusters": [{"name": "c", "cluster": cluster}],
                    "users": [{"name": "u", "user": {}}],
                    "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "x",
                }
            )
        )
        yield path


# What commands print of the hostile text.
TITLE: Final = r"\x1b]0;title\x07"
JSON_TITLE: Final = r"\u001b]0;title\u0007 \u009b31m \u202e"
COMMANDS: Final = {
    "a fault's id": (["faults", "add", "RefuseTLS"], TITLE),
    "a revision": (["faults", "compact"], TITLE),
    "faults": (["faults", "list"], TITLE),
    "faults as JSON": (["faults", "list", "-o", "json"], JSON_TITLE),
    "a refusal": (["faults", "clear", "1"], TITLE),
    "calls": (["deprecations"], TITLE),
    "calls as JSON": (["deprecations", "-o", "json"], JSON_TITLE),
    "calls that fail": (["deprecations", "--fail-in=1.38"], TITLE),
    "clients": (["top"], TITLE),
    "clients as JSON": (["top", "-o", "json"], JSON_TITLE),
    "who may not be asked about": (["auth", "explain", "get", "/metrics"], TITLE),
    "a resource that is not there": (["auth", "explain", "get", f"pods.{HOSTILE}"], ""),
    "objects that cannot be written": (["migrate"], TITLE),
    "a resource that cannot be written": (["storage", "rewrite", HOSTILE], TITLE),
    "an argument": (["faults", "list", HOSTILE], ""),
}


@pytest.mark.parametrize(("arguments", "told"), COMMANDS.values(), ids=COMMANDS)
def test_what_a_server_says_commands_no_terminal(
    capsys: pytest.CaptureFixture[str], kubeconfig: Path, arguments: list[str], told: str
) -> None:
    main([*arguments, f"--kubeconfig={kubeconfig}"])
    out, err = capsys.readouterr()
    assert told in out + err
    assert (out + err).replace("\n", "").isprintable()
    assert out + err


def test_how_to_go_on_is_a_command_for_a_shell() -> None:
    """Without characters that a terminal obeys, though a name has some."""
    position = f"widgets/it's \\ für {HOSTILE}"
    _, line = resume_hint(["migrate", "a b"], Interrupted(position))
    assert line.isprintable()
    command = line.removeprefix("continue with: apiserver ")
    shell = ["bash", "-c", f"printf '%s\\0' {command}"]
    printed = subprocess.run(shell, capture_output=True, check=True).stdout.decode()
    assert printed.split("\0")[:-1] == ["migrate", "a b", f"--after={position}"]


# ---- and of files


def test_what_manifests_say_commands_no_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    document = {
        "apiVersion": "extensions/v1beta1",
        "kind": "Ingress",
        "metadata": {"name": HOSTILE, "namespace": "default"},
        "spec": {HOSTILE: 1},
    }
    path = tmp_path / f"{HOSTILE.replace('/', '')}.json"
    path.write_text(json.dumps(document))
    for output in ("json", "yaml"):
        main(["convert", "-f", str(path), "-o", output])
        out, err = capsys.readouterr()
        assert TITLE in err
        assert err.replace("\n", "").isprintable()
        assert "\x1b" not in out
        assert output == "yaml" or out.replace("\n", "").isprintable()


def test_what_audit_logs_say_commands_no_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    event = {
        "auditID": "a",
        "stage": "ResponseComplete",
        "verb": HOSTILE,
        "user": {"username": HOSTILE},
        "objectRef": {"resource": HOSTILE, "name": HOSTILE},
        "requestReceivedTimestamp": HOSTILE,
        "responseStatus": {"code": 200},
    }
    path = tmp_path / HOSTILE.replace("/", "")
    path.write_text(json.dumps(event))
    for arguments in (["-o", "table"], ["-o", "json"], ["missing\x1b"]):
        main(["audit", "summary", str(path), *arguments])
        out, err = capsys.readouterr()
        assert (out + err).replace("\n", "").isprintable()
        assert "title" in out


@pytest.mark.parametrize("is_indented", [True, False])
def test_json_with_lone_surrogates(capfdbinary: pytest.CaptureFixture[bytes], is_indented: bool) -> None:
    """As a server's answer can have them; they stay what they are."""
    document = {"a": ["\ud800", "ü"], "b": {"c": 1}}
    print_json(document, is_indented=is_indented)
    sys.stdout.flush()
    out = capfdbinary.readouterr().out
    assert json.loads(out) == document
    assert out.count(b"\n") == (9 if is_indented else 1)
