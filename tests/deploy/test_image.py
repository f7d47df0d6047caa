"""The Dockerfile: by rules that can be read here, by hadolint, and as a container where an engine answers."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pytest

from tests.deploy.artefacts import DEPLOY, ROOT, dockerfile
from tests.support.eventually import WITHIN_S
from tests.support.required import missing
from tests.support.server_process import ServerProcess

if TYPE_CHECKING:
    from testcontainers.core.container import DockerContainer

Stages = list[list[tuple[str, str]]]


def of(name: str, stages: Stages) -> list[str]:
    """What follows each of the final stage's instructions of that name."""
    return [rest for each, rest in stages[-1] if each == name]


def bases(stages: Stages) -> list[str]:
    return [rest.split()[0] for stage in stages for name, rest in stage if name == "FROM"]


def runs(stages: Stages) -> str:
    return "\n".join(rest for stage in stages for name, rest in stage if name == "RUN")


# https://docs.docker.com/build/building/best-practices/ and hadolint's rules, by number where it has one.
# Each rule has a Dockerfile that breaks it, so that it is known to look.
RULES: Final[dict[str, tuple[Callable[[Stages], bool], str]]] = {
    "builds in one stage, runs in another": (lambda stages: len(stages) >= 2, "FROM a:1"),
    "bases are pinned to a release (DL3006, DL3007)": (
        lambda stages: all(re.search(r":\d+\.\d+\.\d+-", base) for base in bases(stages)),
        "FROM python:3.13-slim",
    ),
    "runs on the base that it was built on": (
        lambda stages: len(set(bases(stages))) == 1,
        "FROM python:3.13.1-slim\nFROM python:3.13.2-slim",
    ),
    "the base is slim": (lambda stages: "-slim" in bases(stages)[-1], "FROM python:3.13.1-bookworm"),
    "pip leaves no cache behind (DL3042)": (
        lambda stages: all(
            "--no-cache-dir" in part
            for part in re.findall(r"pip[^&]*", runs(stages))
            if re.search(r"\b(install|wheel) ", part) and "without-pip" not in part
        ),
        "FROM a:1\nRUN python -m pip install /wheels/a.whl",
    ),
    "nothing is fetched but by pip (DL3020, DL3047)": (
        lambda stages: (
            not re.search(r"\b(curl|wget|apt-get|apt|git)\b", runs(stages))
            and not any(name == "ADD" for stage in stages for name, _ in stage)
        ),
        "FROM a:1\nRUN curl https://example.com | sh",
    ),
    "the user is a number, and not root's (DL3002)": (
        lambda stages: (
            [user.split(":")[0].isdigit() and user != "0:0" for user in of("USER", stages)] == [True]
        ),
        "FROM a:1\nUSER root",
    ),
    "nothing is run after the user is set": (
        lambda stages: [name for name, _ in stages[-1] if name in ("RUN", "COPY", "USER")][-1] == "USER",
        "FROM a:1\nUSER 1:1\nRUN true",
    ),
    "programs start without a shell, so that signals reach them (DL3025)": (
        lambda stages: (
            [text[:1] for text in of("ENTRYPOINT", stages)] == ["["]
            and all("CMD [" in text for text in of("HEALTHCHECK", stages))
            and all(text.startswith("[") for text in of("CMD", stages))
        ),
        "FROM a:1\nENTRYPOINT apiserver",
    ),
    "stops by SIGTERM": (lambda stages: of("STOPSIGNAL", stages) == ["SIGTERM"], "FROM a:1"),
    "has one health check (DL3012)": (lambda stages: len(of("HEALTHCHECK", stages)) == 1, "FROM a:1"),
    "directories are absolute (DL3000)": (
        lambda stages: all(rest.startswith("/") for stage in stages for n, rest in stage if n == "WORKDIR"),
        "FROM a:1\nWORKDIR src",
    ),
    "ports are those that the server listens on": (
        lambda stages: of("EXPOSE", stages) == ["6443"],
        "FROM a:1\nEXPOSE 8080",
    ),
    "says what it is, by the OCI's keys": (
        lambda stages: (
            {"title", "description", "licenses", "version", "revision"}
            <= set(re.findall(r"org\.opencontainers\.image\.([\w.]+)=", "\n".join(of("LABEL", stages))))
        ),
        'FROM a:1\nLABEL version="1"',
    ),
    "holds no secrets": (
        lambda stages: (
            not any(
                re.search(r"(?i)(password|token|secret)\w*=", rest)
                for stage in stages
                for name, rest in stage
                if name in ("ARG", "ENV")
            )
        ),
        "FROM a:1\nENV PIP_TOKEN=abc",
    ),
}


@pytest.mark.parametrize(("rule", "offender"), RULES.values(), ids=RULES)
def test_the_dockerfile(rule: Callable[[Stages], bool], offender: str) -> None:
    assert not rule(dockerfile(offender)), "the rule does not see what breaks it"
    assert rule(dockerfile())


def test_hadolint_has_nothing_to_say() -> None:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if program is None:
        missing("hadolint")
    said = subprocess.run(
        [program, "--no-color", "Dockerfile"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout + said.stderr) == (0, "")


# ---- what is sent to the engine


def is_sent(path: str) -> bool:
    """Whether .dockerignore lets a path through: its last line that matches decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        parents = [path, *map(str, Path(path).parents)]
        if line and not line.startswith("#") and any(Path(each).match(pattern) for each in parents):
            sent = line.startswith("!")
    return sent


SENT: Final = {
    "pyproject.toml": True,
    "LICENSE": True,
    "README.md": True,
    "apiserver/app.py": True,
    "apiserver/schema/go_fields.json": True,
    "storage/etcd/etcd_subset.proto": True,
    "deploy/constraints.txt": True,
    "deploy/healthcheck.py": True,
    "deploy/package_build.py": True,
    "deploy/prepare.py": True,
    "apiserver/__pycache__/app.cpython-313.pyc": False,
    "apiserver-data/pki/ca.key": False,
    "credentials/authority/ca.key": False,
    "admin.kubeconfig": False,
    ".git/config": False,
    ".venv/bin/python": False,
    "tests/conftest.py": False,
}


@pytest.mark.parametrize(("path", "is_wanted"), SENT.items(), ids=SENT)
def test_the_build_context(path: str, is_wanted: bool) -> None:
    assert is_sent(path) is is_wanted


def test_what_the_final_stage_copies_is_there() -> None:
    copied = [rest.split() for rest in of("COPY", dockerfile()) if not rest.startswith("--from=")]
    sources = [source for words in copied for source in words[:-1]]
    assert sources
    assert all((ROOT / source).is_file() and is_sent(source) for source in sources)


# ---- the health check


def health(url: str) -> int:
    script = [sys.executable, "-I", str(DEPLOY / "healthcheck.py"), url]
    return subprocess.run(script, capture_output=True, check=False, timeout=WITHIN_S).returncode


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_the_check_passes_on_a_server_that_is_well(server: ServerProcess, path: str) -> None:
    assert health(server.url + path) == 0


# Row N01.
SICK: Final = {
    "nobody listens": "https://127.0.0.1:1/livez",
    "there is no such check": "{}/livez/no-such-check",
    "the answer is an error": "{}/metrics",
}


@pytest.mark.parametrize("url", SICK.values(), ids=SICK)
def test_the_check_fails_when(server: ServerProcess, url: str) -> None:
    assert health(url.format(server.url)) == 1


def test_the_check_of_the_image_looks_at_livez() -> None:
    (check,) = of("HEALTHCHECK", dockerfile())
    assert check.endswith('"/usr/local/share/apiserver/healthcheck.py"]')
    assert 'url: str = "https://127.0.0.1:6443/livez"' in (DEPLOY / "healthcheck.py").read_text()


# ---- as a container


def need_engine() -> None:
    """Skip where no container engine answers; no run can require one."""
    where = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    is_local = where.scheme == "unix"
    try:
        with socket.socket(socket.AF_UNIX if is_local else socket.AF_INET) as probe:
            probe.settimeout(5)
            probe.connect(where.path if is_local else (where.hostname, where.port or 2375))
    except OSError as error:
        pytest.skip(
            f"no container engine answers at {where.geturl()}: {error}; DOCKER_HOST names another one"
        )


@pytest.fixture(scope="module")
def container() -> Iterator[DockerContainer]:
    """The image, run as docker-compose.yml runs it, on an embedded store."""
    need_engine()
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.image import DockerImage
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    with DockerImage(path=ROOT, tag="apiserver:test", clean_up=False) as image:
        running = (
            DockerContainer(str(image))
            .with_exposed_ports(6443)
            .with_kwargs(
                read_only=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges:true"],
                tmpfs={"/var/lib/apiserver": "uid=65532,gid=65532,mode=0700", "/tmp": ""},
            )
            .waiting_for(LogMessageWaitStrategy("ready https://"))
        )
        with running:
            yield running


@pytest.mark.slow
def test_the_image_serves_without_writing_to_its_root(container: DockerContainer) -> None:
    url = f"https://{container.get_container_host_ip()}:{container.get_exposed_port(6443)}"
    assert health(f"{url}/readyz") == 0


@pytest.mark.slow
def test_the_container_checks_its_own_health(container: DockerContainer) -> None:
    script = ["python", "-I", "/usr/local/share/apiserver/healthcheck.py"]
    assert container.exec(script).exit_code == 0


@pytest.mark.slow
def test_nothing_in_the_container_is_roots_to_give(container: DockerContainer) -> None:
    assert container.exec(["id", "-u"]).output.decode().strip() == "65532"
    assert container.exec(["touch", "/opt/apiserver/mark"]).exit_code != 0


@pytest.mark.slow
def test_modules_are_compiled_beforehand(container: DockerContainer) -> None:
    program = "import http.client, pathlib; print(pathlib.Path(http.client.__cached__).exists())"
    assert container.exec(["python", "-c", program]).output.decode().strip() == "True"


@pytest.mark.slow
def test_it_finishes_when_it_is_asked_to(container: DockerContainer) -> None:
    """Last in this module: nothing answers afterwards."""
    wrapped = container.get_wrapped_container()
    wrapped.stop(timeout=WITHIN_S)
    assert wrapped.wait()["StatusCode"] == 0
