"""One line of errors about a kubeconfig that cannot be used, or a server that cannot be reached."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Final

import pytest

from apiserver.cli.api_client import PAGE, ApiClient, RequestFailed, segment
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.bounded_files import FILE_BYTES_MAX, read_bounded
from apiserver.cli.server_options import ServerOptions, add_server_options
from tests.support.authority import Authority
from tests.support.https_answers import serving
from tests.support.ports import free_port

CONTEXT: Final = {"name": "x", "context": {"cluster": "c", "user": "u"}}
_HOUR: Final = datetime.timedelta(hours=1)


NO_LISTS: Final[dict[str, Any]] = {"items": {"items": 5}, "metadata": {"items": [], "metadata": "x"}}


class Answering(BaseHTTPRequestHandler):
    """Answers by path, and tells which headers of impersonation and authorization it was sent."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        message = {"message": "pods is forbidden"}
        sent = [*self.headers.get_all("Impersonate-Group", ()), self.headers.get("Authorization", "")]
        known = {"/401": (401, {}), "/403": (403, message)}
        known |= {f"/{name}?limit={PAGE}": (200, document) for name, document in NO_LISTS.items()}
        status, document = known.get(self.path, (200, {"sent": sent}))
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki") / "right")


def kubeconfig(
    directory: Path, url: str, ca: Path, user: dict[str, Any] | None = None, tls_server_name: str = ""
) -> Path:
    cluster = {"server": url, "certificate-authority": str(ca), "tls-server-name": tls_server_name}
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [CONTEXT],
        "current-context": "x",
    }
    path = directory / "config"
    path.write_text(json.dumps(document))
    return path


def failure(path: Path, target: str = "/api") -> str:
    with pytest.raises(RequestFailed) as failed, closing(ApiClient(ServerOptions(path), "test")) as client:
        client.get(target)
    assert "\n" not in str(failed.value)
    return str(failed.value)


# ---- the file


UNUSABLE: Final[dict[str, tuple[Any, str]]] = {
    "no object": ([], ": the document: expected an object"),
    "no context": ({}, ': current-context: no context is named ""'),
    "no cluster": ({"contexts": [CONTEXT], "current-context": "x"}, ': contexts: no cluster is named "c"'),
    "no user": (
        {
            "clusters": [{"name": "c", "cluster": {"server": "https://a"}}],
            "contexts": [CONTEXT],
            "current-context": "x",
        },
        ': contexts: no user is named "u"',
    ),
    "no https": (
        {
            "clusters": [{"name": "c", "cluster": {"server": "http://a"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c"}}],
            "current-context": "x",
        },
        ': clusters: server "http://a" is not a URL with https',
    ),
}


@pytest.mark.parametrize(("document", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_malformed_file_is_named_once(tmp_path: Path, document: Any, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(document))
    assert failure(path) == f"{path}{message}"


def test_an_unreadable_file_is_named_once(tmp_path: Path, authority: Authority) -> None:
    missing = tmp_path / "missing"
    assert failure(missing) == f"{missing}: No such file or directory"
    assert failure(tmp_path) == f"{tmp_path}: Is a directory"
    assert failure(kubeconfig(tmp_path, "https://a", missing)) == f"{missing}: No such file or directory"
    by_file = kubeconfig(tmp_path, "https://a", authority.ca, {"tokenFile": str(missing)})
    assert failure(by_file) == f"{missing}: No such file or directory"


def test_a_file_without_an_end(tmp_path: Path) -> None:
    """Nor is one read that is as long as memory."""
    assert failure(Path("/dev/zero")) == f"/dev/zero: is longer than {FILE_BYTES_MAX} bytes"
    path = kubeconfig(tmp_path, "https://a", Path("/dev/zero"))
    assert failure(path) == f"/dev/zero: is longer than {FILE_BYTES_MAX} bytes"


def test_a_pipe_is_read_only_if_a_shell_passes_it(tmp_path: Path) -> None:
    """No program may ever write to a named pipe; the other end of `<(command)` is a command of the user."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert failure(pipe) == f"{pipe}: is a named pipe, not a file"
    reader, writer = os.pipe()
    with open(writer, "wb") as end:
        end.write(b"{")
    assert read_bounded(Path(f"/dev/fd/{reader}")) == b"{"
    os.close(reader)


def test_a_path_that_no_file_has(tmp_path: Path, authority: Authority) -> None:
    path = kubeconfig(tmp_path, "https://127.0.0.1:1", authority.ca, {"tokenFile": "a\0b"})
    assert failure(path) == f"{tmp_path}/a\0b: embedded null byte"


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"HOME": "/home/Jörg M", "KUBECONFIG": ""}, "/home/Jörg M/.kube/config"),
        ({"HOME": "/home/a", "KUBECONFIG": ":/b:/c"}, "/b"),
        ({"KUBECONFIG": "/b"}, "/b"),
    ],
    ids=["the home directory", "a list with an empty path", "no home directory"],
)
def test_the_default_kubeconfig(variables: dict[str, str], path: str) -> None:
    program = "from apiserver.cli.server_options import default_kubeconfig as d; print(ascii(str(d())))"
    end = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, check=True)
    assert end.stdout.decode().strip() == ascii(path)


def test_a_token_that_is_no_text(tmp_path: Path, authority: Authority) -> None:
    token = tmp_path / "token"
    token.write_bytes(b"\xff")
    path = kubeconfig(tmp_path, "https://a", authority.ca, {"tokenFile": str(token)})
    assert failure(path).startswith(f"{path}: 'utf-8' codec can't decode")


# ---- the server


def test_answers_that_are_refusals(tmp_path: Path, authority: Authority) -> None:
    with serving(authority.issue("server"), Answering) as url:
        path = kubeconfig(tmp_path, url, authority.ca)
        assert failure(path, "/401") == f"{url} does not accept the credentials of {path}: Unauthorized"
        assert failure(path, "/403") == "pods is forbidden"


@pytest.mark.parametrize("name", NO_LISTS)
def test_answers_that_are_no_lists(tmp_path: Path, authority: Authority, name: str) -> None:
    with serving(authority.issue("server"), Answering) as url:
        path = kubeconfig(tmp_path, url, authority.ca)
        with (
            closing(ApiClient(ServerOptions(path), "test")) as client,
            pytest.raises(RequestFailed, match=f"^the server's response to /{name} is not a list$"),
        ):
            list(client.items(f"/{name}"))


def test_a_password_in_a_url_is_not_shown(tmp_path: Path, authority: Authority) -> None:
    port = free_port()
    path = kubeconfig(tmp_path, f"https://user:secret@127.0.0.1:{port}", authority.ca)
    assert failure(path) == f"the request to https://CLASSIFIED@127.0.0.1:{port} failed: Connection refused"
    assert ApiClient(ServerOptions(path), "test").server == f"https://CLASSIFIED@127.0.0.1:{port}"


def test_a_server_that_does_not_listen(tmp_path: Path, authority: Authority) -> None:
    url = f"https://127.0.0.1:{free_port()}"
    assert (
        failure(kubeconfig(tmp_path, url, authority.ca)) == f"the request to {url} failed: Connection refused"
    )


def test_certificates_that_are_not_trusted(tmp_path: Path, authority: Authority) -> None:
    other = Authority(tmp_path / "other")
    with serving(authority.issue("server"), Answering) as url:
        untrusted = f"the request to {url} failed: the server's certificate is not trusted: "
        told = failure(kubeconfig(tmp_path, url, other.ca))
        assert told == f"{untrusted}unable to get local issuer certificate"
        told = failure(kubeconfig(tmp_path, url, authority.ca, tls_server_name="a.example"))
        assert told == f"{untrusted}Hostname mismatch, certificate is not valid for 'a.example'."
    with serving(authority.issue("expired", valid_for=-_HOUR), Answering) as url:
        told = failure(kubeconfig(tmp_path, url, authority.ca))
        assert told == (
            f"the request to {url} failed: the server's certificate is not trusted: certificate has expired"
        )


def test_what_is_sent(tmp_path: Path, authority: Authority) -> None:
    with serving(authority.issue("named", "a.example"), Answering) as url:
        user = {"token": "kept", "tokenFile": "missing", "as": "alice", "as-groups": ["dev", "ops"]}
        path = kubeconfig(tmp_path, url, authority.ca, user, tls_server_name="a.example")
        with closing(ApiClient(ServerOptions(path), "test")) as client:
            assert client.get("/api") == {"sent": ["dev", "ops", "Bearer kept"]}


def test_a_token_that_cannot_be_sent(tmp_path: Path, authority: Authority) -> None:
    token = tmp_path / "token"
    token.write_text("two\nlines")
    with serving(authority.issue("server"), Answering) as url:
        path = kubeconfig(tmp_path, url, authority.ca, {"tokenFile": str(token)})
        assert failure(path) == f"{path}: the token must not contain control characters"


def test_what_is_no_unicode(tmp_path: Path, authority: Authority) -> None:
    """As arguments may be."""
    with serving(authority.issue("server"), Answering) as url:
        path = kubeconfig(tmp_path, url, authority.ca)
        with closing(ApiClient(ServerOptions(path), "test")) as client:
            assert client.get(f"/api/{segment(chr(0xDCFF))}") == {"sent": [""]}
            with pytest.raises(RequestFailed, match="the request cannot be sent"):
                client.post("/api", {"name": "\udcff"})


HOSTS: Final = {
    "spaces": "a b",
    "an empty label": "a..b",
    "a long label": "a" * 64,
    "no port": "a:99999",
    "half an address": "[::1",
}


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_hosts_that_cannot_be(tmp_path: Path, authority: Authority, host: str) -> None:
    url = f"https://{host}"
    path = kubeconfig(tmp_path, url, authority.ca)
    assert failure(path) == f'{path}: clusters: server "{url}" is not a URL with https'


# ---- options


def parsed(*arguments: str) -> ServerOptions:
    parser = argparse.ArgumentParser()
    add_server_options(parser)
    return ServerOptions.of(parser.parse_args(arguments))


CONTRADICTIONS: Final = {
    "two tokens": (["--token=a", "--token-file=/f"], "--token and --token-file cannot be set together"),
    "a certificate without its key": (
        ["--client-certificate=/c"],
        "--client-certificate and --client-key must be given together",
    ),
    "a key alone": (["--client-key=/k"], "--client-certificate and --client-key must be given together"),
    "who signs what nobody looks at": (
        ["--insecure-skip-tls-verify", "--certificate-authority=/ca"],
        "--certificate-authority and --insecure-skip-tls-verify cannot be set together",
    ),
    "no https": (["--server=http://a"], '--server: "http://a" is not a URL with https'),
    "no URL": (["--server=localhost:6443"], '--server: "localhost:6443" is not a URL with https'),
}


@pytest.mark.parametrize(("arguments", "message"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_options_that_contradict_each_other(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parsed(*arguments)
    assert str(refused.value) == message


def two_contexts(directory: Path, url: str, ca: Path) -> Path:
    path = kubeconfig(directory, url, ca, {"token": "of-u", "as": "alice", "as-groups": ["dev"]})
    document = json.loads(path.read_text())
    document["users"].append({"name": "other", "user": {"token": "of-other"}})
    document["contexts"].append(
        {"name": "y", "context": {"cluster": "c", "user": "other", "namespace": "team"}}
    )
    path.write_text(json.dumps(document))
    return path


AS_WHOM: Final[dict[str, tuple[list[str], list[str]]]] = {
    "the current context's user": ([], ["dev", "Bearer of-u"]),
    "that of another context": (["--context=y"], ["Bearer of-other"]),
    "a token instead": (["--token=mine"], ["Bearer mine"]),
    "that of a file": (["--token-file={dir}/token"], ["Bearer filed"]),
    "a certificate instead": (["--client-certificate={crt}", "--client-key={key}"], [""]),
}


@pytest.mark.parametrize(("arguments", "sent"), AS_WHOM.values(), ids=AS_WHOM)
def test_as_whom_the_server_is_asked(
    tmp_path: Path, authority: Authority, arguments: list[str], sent: list[str]
) -> None:
    (tmp_path / "token").write_text("filed\n")
    files = authority.issue("client")
    with serving(authority.issue("server"), Answering) as url:
        path = two_contexts(tmp_path, url, authority.ca)
        given = [each.format(dir=tmp_path, crt=files.certificate, key=files.key) for each in arguments]
        with closing(ApiClient(parsed(f"--kubeconfig={path}", *given), "test")) as client:
            assert client.get("/api") == {"sent": sent}
            assert client.namespace == ("team" if "--context=y" in arguments else "")


def test_a_server_without_a_kubeconfig(tmp_path: Path, authority: Authority) -> None:
    """There need not be one; one that is named, or whose context is, has to be there."""
    missing = tmp_path / "missing"

    def client_of(*arguments: str) -> closing[ApiClient]:
        return closing(ApiClient(replace(parsed(*arguments), otherwise=missing), "test"))

    with serving(authority.issue("named", "a.example"), Answering) as url:
        trusted = (f"--certificate-authority={authority.ca}", "--tls-server-name=a.example")
        with client_of(f"--server={url}", "--token=mine", *trusted) as client:
            assert client.get("/api") == {"sent": ["Bearer mine"]}
            with pytest.raises(RequestFailed) as refused:
                client.get("/401")
            assert str(refused.value) == (
                f"{url} does not accept the credentials of the command line: Unauthorized"
            )
        with client_of(f"--server={url}", "--insecure-skip-tls-verify") as client:
            assert client.get("/api") == {"sent": [""]}
        with (
            client_of(f"--server={url}") as client,
            pytest.raises(RequestFailed, match="the server's certificate is not trusted"),
        ):
            client.get("/api")
        for named in (f"--kubeconfig={missing}", "--context=x"):
            with pytest.raises(RequestFailed) as failed:
                client_of(f"--server={url}", named)
            assert str(failed.value) == f"{missing}: No such file or directory"


def test_another_server_than_the_contexts(tmp_path: Path, authority: Authority) -> None:
    """With the context's user, and its authorities, as kubectl does."""
    with serving(authority.issue("server"), Answering) as url:
        path = two_contexts(tmp_path, "https://127.0.0.1:1", authority.ca)
        with closing(ApiClient(parsed(f"--kubeconfig={path}", f"--server={url}"), "test")) as client:
            assert client.get("/api") == {"sent": ["dev", "Bearer of-u"]}
        with pytest.raises(RequestFailed) as failed:
            ApiClient(parsed(f"--kubeconfig={path}", "--context=none"), "test")
        assert str(failed.value) == f'{path}: contexts: no context is named "none"'


def test_options_never_show_their_token(tmp_path: Path) -> None:
    with pytest.raises(RequestFailed) as failed:
        ApiClient(
            parsed("--server=https://a", "--token=secret\nline", f"--kubeconfig={tmp_path}/none"), "test"
        )
    assert "secret" not in str(failed.value)
