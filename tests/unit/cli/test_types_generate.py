"""`apiserver types generate`: what it reads, writes and reports."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from apiserver.cli import types_generate
from apiserver.cli.api_client import RequestFailed
from apiserver.cli.argument_parser import UsageError
from apiserver.types.code_generation.generation import EMITTERS, definitions_source, openapi_source
from tests.corpus_crds import definition_files
from tests.support.json_server import asking

QUEUES: Final = next(file for file in definition_files() if file.name == "queues").definition
ORDERS: Final = next(file for file in definition_files() if file.name == "orders").definition
SCHEMAS: Final[dict[str, Any]] = {
    "Pet": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
}
OPENAPI: Final = {"openapi": "3.0.0", "components": {"schemas": SCHEMAS}}
WIDGET: Final = {
    "type": "object",
    "properties": {"metadata": {"type": "object"}, "size": {"type": "integer"}},
    "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Widget"}],
}


def generate(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command writes; it reports nothing."""
    assert types_generate.run(["generate", *map(str, arguments)]) == types_generate.DONE
    written = capsys.readouterr()
    assert written.err == ""
    return written.out


@pytest.fixture
def queues(tmp_path: Path) -> Path:
    file = tmp_path / "queues.yaml"
    file.write_text(f"# the broker's\n---\n{json.dumps(QUEUES)}\n---\n")
    return file


@pytest.mark.parametrize("kind", EMITTERS)
def test_a_file(capsys: pytest.CaptureFixture[str], queues: Path, kind: str) -> None:
    assert generate(capsys, queues, "--as", kind) == definitions_source([QUEUES], kind)


def test_dataclasses_are_the_default(capsys: pytest.CaptureFixture[str], queues: Path) -> None:
    assert generate(capsys, queues) == definitions_source([QUEUES], "dataclass")


def test_a_directory_with_several_definitions(capsys: pytest.CaptureFixture[str], queues: Path) -> None:
    queues.with_name("a.json").write_text(json.dumps({"kind": "List", "items": [ORDERS, {"kind": "Pod"}]}))
    assert generate(capsys, queues.parent) == definitions_source([ORDERS, QUEUES], "dataclass")


def test_standard_input() -> None:
    command = [sys.executable, "-m", "apiserver", "types", "generate", "-"]
    source = subprocess.run(command, input=json.dumps(OPENAPI), capture_output=True, text=True, check=True)
    assert source.stdout == openapi_source(SCHEMAS, "dataclass")


def test_a_url(capsys: pytest.CaptureFixture[str], queues: Path) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=queues.parent)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            assert types_generate.run(["generate", f"{url}/queues.yaml"]) == types_generate.DONE
            assert capsys.readouterr().out == definitions_source([QUEUES], "dataclass")
            assert types_generate.run(["generate", f"{url}/other.yaml"]) == types_generate.FAILED
            message = f"apiserver: {url}/other.yaml: HTTP Error 404: File not found"
            assert capsys.readouterr().err.splitlines()[-1] == message
        finally:
            server.shutdown()


class _Cut(SimpleHTTPRequestHandler):
    """Closes the connection before the end of the file."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"kind: List")


def test_a_download_that_is_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Cut) as server:
        Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}"
        try:
            assert types_generate.run(["generate", url]) == types_generate.FAILED
        finally:
            server.shutdown()
    message = f"apiserver: {url}: the connection was closed before the end of the file"
    assert capsys.readouterr().err.splitlines()[-1] == message


class _Endless:
    """A response that does not end."""

    headers: Final[dict[str, str]] = {}

    def read1(self, size: int) -> bytes:
        return b"a" * size


def test_downloads_are_bounded() -> None:
    with pytest.raises(ValueError, match="the file has more than 67108864 bytes"):
        for _ in types_generate._pieces(_Endless(), time.monotonic() + 60):
            pass
    with pytest.raises(TimeoutError, match="the download takes more than 300 s"):
        list(types_generate._pieces(_Endless(), time.monotonic()))


URLS: Final = {
    "an address that is none": ("http://user:secret@[::1", "http://CLASSIFIED@[::1: Invalid IPv6 URL"),
    "longer than names of files": (f"http://[::1/{'a' * 5000}", "http://[::1/aaa"),
    "a space": ("http://a b", "http://a b: URL can't contain control characters. 'a b' (found at least ' ')"),
}


@pytest.mark.parametrize(("url", "problem"), URLS.values(), ids=URLS)
def test_urls_that_are_not_valid(capsys: pytest.CaptureFixture[str], url: str, problem: str) -> None:
    assert types_generate.run(["generate", url]) == types_generate.FAILED
    assert capsys.readouterr().err.startswith(f"apiserver: {problem}")


def test_a_source_that_is_longer_than_names_of_files() -> None:
    with pytest.raises(
        UsageError, match="is not a file, an http or https URL, or a group such as apps or apps/v1"
    ):
        types_generate.run(["generate", "a" * 5000])


def test_a_name_that_msgspec_does_not_support(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    schemas = {"A": {"properties": {'a"': {"type": "string"}}}}
    file = tmp_path / "a.json"
    file.write_text(json.dumps({**OPENAPI, "components": {"schemas": schemas}}))
    assert types_generate.run(["generate", "--as=msgspec", str(file)]) == types_generate.FAILED
    problem = "msgspec does not support the field name 'a\"'; choose other classes with --as"
    assert capsys.readouterr().err == f"apiserver: {file}: {problem}\n"
    assert "class A:\n" in generate(capsys, file)


def test_a_built_in_group(capsys: pytest.CaptureFixture[str]) -> None:
    source = generate(capsys, "batch/v1", "--as", "typeddict")
    assert "class Job(TypedDict):" in source
    assert "class CronJob(TypedDict):" in source
    assert "class Deployment(TypedDict):" not in source


@pytest.mark.parametrize(("group", "preferred"), [("batch", "batch/v1"), ("autoscaling", "autoscaling/v2")])
def test_a_built_in_group_without_a_version(
    capsys: pytest.CaptureFixture[str], group: str, preferred: str
) -> None:
    assert generate(capsys, group) == generate(capsys, preferred)


def test_a_group_of_a_server(tmp_path: Path) -> None:
    schemas = {"com.example.v1.Widget": WIDGET}
    document = {**OPENAPI, "components": {"schemas": schemas}}
    with asking(lambda given: types_generate.run(["generate", *given]), tmp_path) as ask:
        source = ask(document, arguments=["example.com/v1"])
        assert source == openapi_source(schemas, "dataclass", "example.com/v1")
        assert "class Widget:\n" in source
        group = {"preferredVersion": {"groupVersion": "example.com/v1"}}
        assert ask({**document, **group}, arguments=["example.com"]) == source
        with pytest.raises(RequestFailed, match=r"response for example\.com is not an API group"):
            ask({"kind": "Status"}, arguments=["example.com"])
        for version in ('example.com/v1"""', "other.com/v1", 1, None):
            with pytest.raises(RequestFailed, match="is not an API group"):
                ask({"preferredVersion": {"groupVersion": version}}, arguments=["example.com"])

        with pytest.raises(RequestFailed, match=r"response for example\.com/v1 is not an OpenAPI document"):
            ask({"kind": "Status"}, arguments=["example.com/v1"])


def test_a_name_that_is_neither_a_file_nor_a_group(tmp_path: Path) -> None:
    """The error says so, whatever goes wrong when a server is asked for such a group."""
    none = f"--kubeconfig={tmp_path / 'none'}"
    with pytest.raises(RequestFailed, match=r"^crds\.txt is not a file or a built-in group: .*none"):
        types_generate.run(["generate", "crds.txt", none])
    with pytest.raises(UsageError, match=r"'a\.\.b' is not a file"):
        types_generate.run(["generate", "a..b", none])


USAGE: Final = {
    "a file that is missing": (
        "apps.yaml",
        "'apps.yaml' is not a file, an http or https URL, or a group such as apps or apps/v1",
    ),
    "another scheme": ("ftp://example.com/a", "'ftp://example.com/a' is not a file"),
}


@pytest.mark.parametrize(("source", "problem"), USAGE.values(), ids=USAGE)
def test_sources_that_are_none(source: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        types_generate.run(["generate", source])
    assert str(refused.value).startswith(f"types generate: {problem}")


REFUSED: Final = {
    "YAML that is none": ("a: [", ": yaml: "),
    "an old version": (
        json.dumps({**QUEUES, "apiVersion": "apiextensions.k8s.io/v1beta1"}),
        ": the definition has version v1beta1; only v1 is supported",
    ),
    "no versions": (
        json.dumps({**QUEUES, "spec": {}}),
        ": the definition is not valid; run 'apiserver crd check' to find out why",
    ),
    "an unknown type": (
        json.dumps({**OPENAPI, "components": {"schemas": {"A": {"properties": {"a": {"type": "b"}}}}}}),
        ": the OpenAPI document is not valid",
    ),
}


@pytest.mark.parametrize(("text", "problem"), REFUSED.values(), ids=REFUSED)
def test_documents_that_are_not_valid(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert types_generate.run(["generate", str(file)]) == types_generate.FAILED
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith(f"apiserver: {file}{problem}")
    assert written.err.count("\n") == 1


def test_a_file_without_definitions(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\n")
    with pytest.raises(UsageError, match="there are no CustomResourceDefinitions and no OpenAPI document"):
        types_generate.run(["generate", str(file)])
