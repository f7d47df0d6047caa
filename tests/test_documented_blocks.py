"""Every block of code in README.md and docs/ is run, as a reader would run it, or has a reason not to be.

A page is run from its first block to its last: files are written, commands are run, and what is shown of
their output is compared with it. A page with tests is a suite that passes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.support.kubectl import MISSING, program, usable_versions
from tests.support.page_runner import PageRunner, shows, starts_server
from tests.support.pages import DIAGRAM, OUTPUT, README, SHELL, Block, blocks, indented_blocks, pages
from tests.support.required import library

INSTALLS: Final = "installs packages from a registry; tests/deploy/test_wheel.py installs the wheel"
CONTAINERS: Final = "needs a container engine; tests/deploy/test_image.py starts the image where there is one"
REPLICAS: Final = "needs an etcd cluster; tests/deploy/test_replicas.py runs replicas on one"
COPIES: Final = "needs an etcd cluster; tests/server/test_storage_copy.py copies to and from an etcd"
MEMBERS: Final = "needs a snapshot of etcd; tests/server/test_snapshot_command.py restores three members"
SYSTEMD: Final = "needs systemd or a cluster; tests/deploy runs prepare.py"
BESIDE: Final = "tests/testing/test_docs_testing.py runs or checks it, with the tools that it needs"
GO_TEST: Final = 'KUBEBUILDER_ASSETS="$(apiserver envtest-assets)" go test ./...'
MAVEN: Final = "needs a project in Java with Maven"
# Blocks that are not run here, by their pages and their first lines.
NOT_RUN: Final[dict[tuple[str, str], str]] = {
    ("README.md", "python3 -m venv ~/.venvs/apiserver"): INSTALLS,
    ("docs/tutorials/test-an-operator.md", "python3 -m venv .venv"): INSTALLS,
    (
        "docs/testing/ci.md",
        "python3 -m pip wheel --no-deps --wheel-dir wheels PATH-OF-THE-CHECKOUT",
    ): INSTALLS,
    ("docs/testing/ci.md", "# .github/workflows/test.yaml"): BESIDE,
    ("docs/testing/ci.md", "# .gitlab-ci.yml"): BESIDE,
    ("docs/testing/coming-from.md", GO_TEST): BESIDE,
    ("docs/testing/containers.md", "docker build --tag apiserver:0.1.0 ."): CONTAINERS,
    ("docs/testing/containers.md", "# test_container.py"): BESIDE,
    ("docs/testing/containers.md", "// container.mjs"): BESIDE,
    ("docs/testing/containers.md", "// ApiServerContainer.java"): BESIDE,
    ("docs/testing/go.md", GO_TEST): BESIDE,
    ("docs/testing/go.md", "// suite_test.go"): BESIDE,
    ("docs/testing/go.md", "# Makefile"): "needs the project of an operator, made by kubebuilder",
    (
        "docs/testing/go.md",
        "KUBE_API_TEST_OFFLINE_MODE=true KUBE_API_TEST_API_SERVER_VERSION=1.36.0 mvn test",
    ): MAVEN,
    ("docs/testing/javascript.md", "// apiserver.mjs"): BESIDE,
    ("docs/testing/javascript.md", "// settings.test.mjs"): BESIDE,
    ("docs/testing/javascript.md", "{"): BESIDE,
    ("docs/testing/javascript.md", "npm test"): BESIDE,
    (
        "docs/testing/javascript.md",
        'KUBEBUILDER_ASSETS="$(apiserver envtest-assets)" npm test',
    ): "needs a suite with envtest-js",
    (
        "docs/operating/etcd-and-replicas.md",
        "apiserver --etcd-servers=https://etcd-1:2379,https://etcd-2:2379,https://etcd-3:2379 \\",
    ): REPLICAS,
    (
        "docs/operating/etcd-and-replicas.md",
        "export ETCDCTL_ENDPOINTS=https://etcd-1:2379,https://etcd-2:2379,https://etcd-3:2379",
    ): "needs an etcd that is full; tests/storage/etcd/test_full_stores.py frees one",
    **{
        ("docs/operating/etcd-and-replicas.md", first_line): reason
        for first_line, reason in {
            "etcdctl endpoint status --cluster --write-out=table": REPLICAS,
            "# /etc/systemd/system/apiserver-certificates.service": SYSTEMD,
            "systemctl enable --now apiserver-certificates.timer": SYSTEMD,
            "python deploy/prepare.py --directory /credentials --url https://api.example \\": SYSTEMD,
            "apiserver storage copy --from apiserver-data --to https://etcd-1:2379 \\": COPIES,
            "copied …/apiserver-data to https://etcd-1:2379: 200000 keys, …": COPIES,
            "apiserver storage copy --from https://etcd-1:2379 --from-etcd-cafile=ca.crt \\": COPIES,
            "apiserver: a kube-apiserver uses the prefix /registry in etcd at https://etcd-1:2379, …": COPIES,
        }.items()
    },
    (
        "docs/operating/backup.md",
        "apiserver snapshot restore backup.db --data-dir=/var/lib/etcd \\",
    ): MEMBERS,
    ("docs/operating/backup.md", "# On etcd-1:"): MEMBERS,
    (
        "docs/developing/browsers.md",
        "// dashboard.js",
    ): "needs a browser; tests/server/test_websocket.py watches",
    (
        "docs/developing/browsers.md",
        'const socket = new WebSocket(`${server.replace("https:", "wss:")}/console/watches`, [',
    ): "needs a browser; tests/server/test_console_watches.py subscribes",
    (
        "docs/developing/browsers.md",
        "const headers = {Authorization: `Bearer ${token}`};",
    ): "needs a browser; tests/server/test_websocket.py watches tables",
    ("README.md", "apiserver console"): "opens a browser; tests/server/test_console_command.py has one",
    (
        "docs/operating/console-tour.md",
        "apiserver console --kubeconfig apiserver-data/admin.kubeconfig",
    ): "opens a browser; tests/server/test_console_command.py has one",
    (
        "docs/operating/console.md",
        "apiserver console --kubeconfig apiserver-data/admin.kubeconfig",
    ): "opens a browser; tests/server/test_console_command.py has one",
    (
        "docs/operating/console.md",
        "apiserver --oidc-issuer-url=https://login.example.com --oidc-client-id=kubernetes \\",
    ): "needs an OpenID provider; tests/server/test_console_oidc.py has one",
    ("docs/operating/upgrade.md", "docker compose build"): CONTAINERS,
}
# Pages all of whose blocks are not run here.
PAGES_NOT_RUN: Final[dict[str, str]] = {
    "docs/reference/conformance.md": "long; tests/server/test_conformance_command.py runs the command",
    "docs/reference/command-line.md": "the help of the commands, which `make docs` writes",
    "docs/reference/console-api.md": "requests and responses; tests/server/test_console_*.py send them",
    "docs/reference/testing-api.md": "signatures, which `make docs` writes",
    "docs/operating/alerts.md": "expressions; tests/deploy/test_prometheus.py checks them",
    "docs/operating/install.md": f"{INSTALLS}; Docker {CONTAINERS}",
    "docs/operating/doctor.md": "depends on the machine; tests/server/test_doctor.py makes these set-ups",
    "docs/operating/traces.md": "needs a collector; tests/server/test_tracing.py has one",
    "docs/developing/releasing.md": "tests/deploy/test_release.py builds a release",
}
CLIENTS: Final = ("kubernetes", "kubernetes_asyncio", "kr8s", "lightkube", "pykube", "kopf")
# Commands that ask a running server, or read its store.
_ASKS_SERVER: Final = re.compile(
    r"^(?:kubectl|curl|apiserver (?:auth|deprecations|migrate|snapshot|storage))\b", re.MULTILINE
)
_IMPORT: Final = re.compile(r"^\s*(?:import|from) (\w+)", re.MULTILINE)
_TEST: Final = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)


PAGES: Final = list(pages())


def is_run(block: Block) -> bool:
    return (
        block.language != DIAGRAM
        and block.page not in PAGES_NOT_RUN
        and (block.page, block.first_line) not in NOT_RUN
    )


def test_blocks_that_are_not_run_exist_and_have_a_reason() -> None:
    found = {(block.page, block.first_line) for page in pages() for block in blocks(page)}
    assert NOT_RUN.keys() - found == set()
    assert PAGES_NOT_RUN.keys() - pages().keys() == set()
    assert all(reason for reason in (*NOT_RUN.values(), *PAGES_NOT_RUN.values()))


@pytest.mark.parametrize("page", PAGES)
def test_every_block_can_be_run(page: str) -> None:
    """It is for a shell, or shows an output, or is a file whose path is its first line."""
    assert indented_blocks(page) == []
    found = blocks(page)
    assert len(found) == pages()[page].count("```") / 2
    files = [block for block in found if is_run(block) and block.language not in {SHELL, OUTPUT}]
    assert [block for block in files if not block.path or block.language not in {"python", "yaml"}] == []
    assert [block.path for block in files if not is_used(block, found)] == []


def is_used(file: Block, found: list[Block]) -> bool:
    """Whether pytest runs a file, or another block on the page names it, or its folder."""
    path = Path(file.path)
    if path.name == "conftest.py" or path.name.startswith("test_"):
        return True
    names = {path.name, path.stem, str(path.parent)} - {"."}
    return any(name in other.text for other in found if other.path != file.path for name in names)


def names_of_tests(page: str) -> set[str]:
    return {
        name for block in blocks(page) if block.path.endswith(".py") for name in _TEST.findall(block.text)
    }


def marks(page: str) -> list[pytest.MarkDecorator]:
    slow = [pytest.mark.slow] if page != README and names_of_tests(page) else []
    return [*slow, *([pytest.mark.kubectl] if needs_kubectl(page) else [])]


def needs_kubectl(page: str) -> bool:
    return any(
        "kubectl " in block.text for block in blocks(page) if block.language == SHELL and is_run(block)
    )


def asks_server(page: str) -> bool:
    return any(_ASKS_SERVER.search(b.text) for b in blocks(page) if b.language == SHELL and is_run(b))


RUN: Final = [pytest.param(page, marks=marks(page)) for page in PAGES if any(map(is_run, blocks(page)))]


@pytest.mark.parametrize("page", RUN)
def test_a_page_works(page: str, tmp_path: Path) -> None:
    run = [block for block in blocks(page) if is_run(block)]
    shell = [block for block in run if block.language == SHELL]
    for block in run:
        for name in sorted({*_IMPORT.findall(block.text)}.intersection(CLIENTS)):
            library(name)
    kubectl = program((usable_versions() or [MISSING])[-1]) if needs_kubectl(page) else None
    with PageRunner(tmp_path, kubectl) as runner:
        if asks_server(page) and not any(map(starts_server, shell[:1])):
            runner.start_server()
        for block in run:
            runner.run(block)
        runner.finish()
        if names_of_tests(page) - runner.passed:
            runner.run(Block(page, SHELL, "pytest -q\n"))
            runner.finish()
    assert names_of_tests(page) - runner.passed == set()


# What is shown, what is printed, and whether it is that.
OUTPUTS: Final = {
    "the same": ("a b\n", "a b\n", True),
    "more before it": ("b\n", "a\nb\n", True),
    "more after it": ("a\n", "a\nb\n", False),
    "another word": ("a b\n", "a c\n", False),
    "another order": ("a\nb\n", "b\na\n", False),
    "a line missing": ("a\nb\nc\n", "a\nc\n", False),
    "other spaces": ("NAME   AGE\n", "NAME          AGE   \n", True),
    "another age": ("web   1m\n", "web   20s\n", True),
    "other ready pods": ("web   0/1\n", "web   1/1\n", False),
    "lines left out": ("a\n…\nc\n", "a\nb\nb\nc\n", True),
    "words left out": ("error: … b\n", "error: x y b\n", True),
    "characters left out": ("at …/a.py\n", "at /x/a.py\n", True),
}


@pytest.mark.parametrize(("shown", "printed", "is_shown"), OUTPUTS.values(), ids=OUTPUTS)
def test_how_an_output_is_compared(shown: str, printed: str, is_shown: bool) -> None:
    assert shows(shown, printed) == is_shown
