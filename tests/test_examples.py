"""Each folder of `examples/` is a project that works when it is copied, as its README says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml

from apiserver import __version__
from apiserver.cli.command_line import parse
from tests.deploy.artefacts import ROOT, compose, entrypoint
from tests.support.etcd_process import etcd_binaries
from tests.support.eventually import WITHIN_S, until
from tests.support.kubectl import MISSING, program, usable_versions
from tests.support.pages import blocks
from tests.support.ports import free_port
from tests.support.required import library, missing
from tests.support.server_process import ServerProcess

EXAMPLES: Final = ROOT / "examples"
NAMES: Final = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
README_LINES_MAX: Final = 40
CODE_LINES_MAX: Final = 150
SUITE_WITHIN_S: Final = 300
WORKFLOW: Final = EXAMPLES / "ci" / ".github" / "workflows" / "tests.yml"
GITLAB: Final = EXAMPLES / "ci" / ".gitlab-ci.yml"
SERVICES: Final[dict[str, Any]] = yaml.safe_load((EXAMPLES / "compose" / "compose.yaml").read_text())[
    "services"
]


def copied(name: str, directory: Path) -> Path:
    """A copy of an example, without what earlier runs left there."""
    leftovers = shutil.ignore_patterns("__pycache__", ".pytest_cache", "apiserver-data")
    return Path(shutil.copytree(EXAMPLES / name, directory / name, ignore=leftovers))


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables}


def run(command: str, directory: Path, **variables: str) -> str:
    """Run a line of a shell to its end. Returns what it printed."""
    end = subprocess.run(
        ["bash", "-ec", command],
        cwd=directory,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SUITE_WITHIN_S,
    )
    assert end.returncode == 0, f"{command}: {end.stdout}{end.stderr}"
    return end.stdout


def commands(name: str) -> list[str]:
    """The lines for a shell in the README of an example."""
    return re.findall(r"^    (.+)$", (EXAMPLES / name / "README.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name / "README.md").read_text().splitlines()) <= README_LINES_MAX
    code = [path for path in (EXAMPLES / name).rglob("*") if path.suffix in (".py", ".go", ".html")]
    assert {path.name for path in code if len(path.read_text().splitlines()) > CODE_LINES_MAX} == set()


@pytest.mark.parametrize("index", ["examples/README.md", "docs/examples.md"])
def test_every_example_is_listed(index: str) -> None:
    assert set(re.findall(r"^\| \[`([\w-]+)`\]", (ROOT / index).read_text(), re.MULTILINE)) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_readme_shows_every_file_that_matters(name: str) -> None:
    readme = (EXAMPLES / name / "README.md").read_text()
    tracked = run(f"git ls-files --cached --others --exclude-standard examples/{name}", ROOT).split()
    files = {path.removeprefix(f"examples/{name}/") for path in tracked}
    about_itself = {"README.md", "requirements.txt", "pytest.ini", "go.mod"}
    assert {
        file for file in files - about_itself if file not in readme and f"{file.split('/')[0]}/" not in readme
    } == set()


@pytest.mark.parametrize("name", [name for name in NAMES if (EXAMPLES / name / "requirements.txt").exists()])
def test_what_an_example_requires_is_what_is_tested(name: str) -> None:
    """This package is not among it: on PyPI, the name may be that of another one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ours = {re.split(r"[^\w-]", each)[0] for each in project["optional-dependencies"]["test"]}
    required = (EXAMPLES / name / "requirements.txt").read_text().split()
    assert {re.split(r"[^\w-]", each)[0] for each in required} - ours == set()


@pytest.mark.parametrize("name", NAMES)
def test_the_servers_of_a_readme_start_with_their_flags(name: str) -> None:
    for command in commands(name):
        words = shlex.split(command)
        if words[0] == "apiserver":
            assert parse(words[1:]).warnings == ()


@pytest.mark.parametrize("name", ["shop.py", "first.yaml"])
def test_the_tutorial_builds_the_shop(name: str) -> None:
    """It first defines a type of one version, in a line that it removes later."""
    parts = [block.text for block in blocks("docs/tutorials/your-own-api.md") if block.path == name]
    built = "\n\n".join(text.partition("\n")[2] for text in parts)
    assert built.replace("app.crd(Order)\n\n\n", "", 1) == (EXAMPLES / "shop" / name).read_text()


# ---- suites of pytest


class Suite(NamedTuple):
    passed: int
    needs: tuple[str, ...] = ()


SUITES: Final = {
    "ci": Suite(1),
    "fastapi-dashboard": Suite(6, needs=("fastapi", "httpx", "kubernetes_asyncio", "uvicorn")),
    "kopf-operator": Suite(6, needs=("kopf", "lightkube")),
    "shop": Suite(18),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "suite"), SUITES.items(), ids=SUITES)
def test_a_suite_passes(name: str, suite: Suite, tmp_path: Path) -> None:
    for needed in suite.needs:
        library(needed)
    (command,) = (each for each in commands(name) if each.endswith("pytest"))
    printed = run(command, copied(name, tmp_path))
    assert re.search(rf"\b{suite.passed} passed in", printed), printed


# ---- the programs, as their READMEs start them


@contextmanager
def running(command: str, directory: Path, **variables: str) -> Iterator[None]:
    """Run a program beside the test."""
    log = directory / "program.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            shlex.split(command),
            cwd=directory,
            env=environment(**variables),
            stdout=written,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        except BaseException:
            print(log.read_text()[-4000:])
            raise
        finally:
            process.terminate()
            process.wait(WITHIN_S)


@contextmanager
def following_the_readme(name: str, starts: str, tmp_path: Path, *arguments: str) -> Iterator[ServerProcess]:
    """Does what a README says: a server, the commands, and beside them the program that one of them starts.

    starts: what this command begins with. arguments: are added to it.
    """
    directory = copied(name, tmp_path)
    kubectl = program((usable_versions() or [MISSING])[-1])
    lines = [line for line in commands(name) if not line.startswith(("pip ", "pytest", "export "))]
    (server_line,) = (line for line in lines if line.startswith("apiserver"))
    (program_line,) = (line for line in lines if line.startswith(starts))
    before, after = lines[: lines.index(program_line)], lines[lines.index(program_line) + 1 :]
    with ServerProcess(tmp_path / "data", *shlex.split(server_line)[1:]) as server:
        kubeconfig = str(server.kubeconfig)
        for line in before:
            if line != server_line:
                run(line.replace("kubectl", kubectl), directory, KUBECONFIG=kubeconfig)
        with running(shlex.join([*shlex.split(program_line), *arguments]), directory, KUBECONFIG=kubeconfig):
            for line in after:
                run(line.replace("kubectl", kubectl), directory, KUBECONFIG=kubeconfig)
            yield server


@pytest.mark.slow
@pytest.mark.kubectl
def test_the_operator_as_its_readme_starts_it(tmp_path: Path) -> None:
    library("kopf")
    library("lightkube")
    with following_the_readme("kopf-operator", "kopf run", tmp_path) as server:
        kubectl = program((usable_versions() or [MISSING])[-1])
        show = [kubectl, "--kubeconfig", str(server.kubeconfig), "get", "cronjobs", "--output=name"]
        until(
            lambda: b"nightly" in subprocess.run(show, capture_output=True, check=False).stdout,
            what="a CronJob",
        )


@pytest.mark.slow
@pytest.mark.kubectl
def test_the_dashboard_as_its_readme_starts_it(tmp_path: Path) -> None:
    for needed in SUITES["fastapi-dashboard"].needs:
        library(needed)
    url = f"http://127.0.0.1:{(port := free_port())}"
    with following_the_readme("fastapi-dashboard", "uvicorn", tmp_path, f"--port={port}"):
        until(lambda: _answers(f"{url}/"), what="the page")
        until(lambda: any(each["ready"] == 5 for each in _first_event(f"{url}/events")), what="five Pods")


@pytest.mark.slow
@pytest.mark.kubectl
def test_the_shop_as_its_readme_starts_it(tmp_path: Path) -> None:
    directory = copied("shop", tmp_path)
    kubectl = program((usable_versions() or [MISSING])[-1])
    server_line, *lines = [line for line in commands("shop") if line.startswith(("apiserver", "kubectl"))]
    flags, variables = shlex.split(server_line)[1:], {"PYTHONPATH": str(directory)}
    with ServerProcess(tmp_path / "data", *flags, module="apiserver", environment=variables) as server:
        *created, show, explain = (line.replace("kubectl", kubectl) for line in lines)
        for line in created:
            run(line, directory, KUBECONFIG=str(server.kubeconfig))
        until(lambda: "configmap/first-invoice" in run(show, directory, KUBECONFIG=str(server.kubeconfig)))
        assert "The number of pieces." in run(explain, directory, KUBECONFIG=str(server.kubeconfig))


def _first_event(url: str) -> Any:
    """The data of the event that a stream begins with."""
    with urllib.request.urlopen(url, timeout=WITHIN_S) as stream:
        return next(json.loads(line.removeprefix(b"data: ")) for line in stream if line.startswith(b"data: "))


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=WITHIN_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


# ---- CI


SCHEMAS: Final = {
    "a workflow of GitHub": (WORKFLOW, "vendor.github-workflows"),
    "a workflow that ends": (WORKFLOW, "custom.github-workflows-require-timeout"),
    "a pipeline of GitLab": (GITLAB, "vendor.gitlab-ci"),
    "a Compose file": (EXAMPLES / "compose" / "compose.yaml", "vendor.compose-spec"),
}


@pytest.mark.parametrize(("path", "schema"), SCHEMAS.values(), ids=SCHEMAS)
def test_a_file_has_the_form_that_its_readers_expect(path: Path, schema: str) -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    gitlab = ["--data-transform", "gitlab-ci"] if "gitlab" in schema else []
    end = subprocess.run([*check, *gitlab, path], capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stdout + end.stderr


def releases_of_pipelines() -> dict[str, list[str]]:
    workflow, gitlab = (yaml.safe_load(path.read_text()) for path in (WORKFLOW, GITLAB))
    return {
        "GitHub": workflow["jobs"]["pytest"]["strategy"]["matrix"]["kubernetes"],
        "GitLab": gitlab["pytest"]["parallel"]["matrix"][0]["KUBERNETES_RELEASE"],
    }


def test_the_pipelines_test_the_same_releases() -> None:
    github, gitlab = releases_of_pipelines().values()
    assert github == gitlab
    for release in github:
        assert parse([f"--emulated-version={release}"]).warnings == ()


@pytest.mark.slow
def test_the_pipeline_of_gitlab_runs(tmp_path: Path) -> None:
    directory = copied("ci", tmp_path)
    release = releases_of_pipelines()["GitLab"][0]
    for line in yaml.safe_load(GITLAB.read_text())["pytest"]["script"]:
        if not line.startswith("pip "):
            assert "1 passed" in run(line, directory, KUBERNETES_RELEASE=release)
    assert (directory / "report.xml").exists()


@pytest.mark.slow
@pytest.mark.kubectl
@pytest.mark.parametrize("job", ["pytest", "kubectl"])
def test_the_jobs_of_the_workflow_run(job: str, tmp_path: Path) -> None:
    """Step by step in bash, as a runner does, with variables that a step adds for those that follow."""
    directory = copied("ci", tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(program((usable_versions() or [MISSING])[-1]))
    port = free_port()
    added = tmp_path / "github-env"
    added.touch()
    variables = {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ENV": str(added),
        "KUBERNETES_RELEASE": releases_of_pipelines()["GitHub"][-1],
    }
    steps = [
        step["run"] for step in yaml.safe_load(WORKFLOW.read_text())["jobs"][job]["steps"] if "run" in step
    ]
    # The job's own shell: what a step leaves in the background ends with it.
    script = "\n".join(
        line
        for step in steps
        if not step.startswith("pip ")
        for line in (
            step.replace("apiserver --", f"apiserver --secure-port={port} --"),
            '. "$GITHUB_ENV"; export KUBECONFIG',
        )
    )
    ending = "trap 'jobs -p | xargs -r kill; wait' EXIT\n"
    path = f"{tmp_path / 'bin'}:{environment()['PATH']}"
    printed = run(ending + script, directory, **{**variables, "PATH": path})
    assert "1 passed" in printed if job == "pytest" else "poddisruptionbudget.policy/web created" in printed


# ---- Compose


def image_flags(service: str) -> list[str]:
    return [*entrypoint()[1:], *SERVICES[service]["command"]]


def test_the_server_of_compose_starts_with_its_flags() -> None:
    made = parse(image_flags("apiserver"))
    assert made.warnings == ()
    assert [str(server) for server in made.storage.etcd_servers] == ["http://etcd:2379"]


def test_the_images_of_compose_are_those_of_the_stack() -> None:
    ours = compose()["services"]
    assert SERVICES["apiserver"]["image"] == ours["apiserver-1"]["image"] == f"apiserver:{__version__}"
    assert SERVICES["etcd"]["image"] == ours["etcd-1"]["image"]
    assert SERVICES["apiserver"]["healthcheck"]["test"] == ours["apiserver-1"]["healthcheck"]["test"]


def test_the_dockerfile_of_compose_has_no_flaws() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        missing("hadolint")
    end = subprocess.run(
        [hadolint, EXAMPLES / "compose" / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert end.returncode == 0, end.stdout


def test_docker_itself_takes_the_stack() -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker compose is missing: https://docs.docker.com/compose/install/")
    run("docker compose config --quiet", EXAMPLES / "compose")


@pytest.mark.slow
@pytest.mark.etcd
def test_the_services_of_compose_work_together(tmp_path: Path) -> None:
    """Without an engine: etcd, the server and the tests run as processes with the services' own flags."""
    library("kubernetes")
    etcd = next(iter(etcd_binaries().values()), None) or missing("etcd")
    client, peer = (f"127.0.0.1:{free_port()}" for _ in range(2))
    at_home = {"0.0.0.0:2379": client, "etcd:2379": client, "/tmp/etcd": str(tmp_path / "etcd")}

    def local(flags: list[str]) -> list[str]:
        for there, here in at_home.items():
            flags = [
                flag.replace(f"//{there}", f"//{here}").replace(f"={there}", f"={here}") for flag in flags
            ]
        return flags

    peers = [
        f"--listen-peer-urls=http://{peer}",
        f"--initial-advertise-peer-urls=http://{peer}",
        f"--initial-cluster=default=http://{peer}",
    ]
    tests = SERVICES["tests"]
    with (
        running(shlex.join([str(etcd), *local(SERVICES["etcd"]["command"])[1:], *peers]), tmp_path),
        ServerProcess(tmp_path / "data", *local(SERVICES["apiserver"]["command"])) as server,
    ):
        variables = {**tests["environment"], "KUBECONFIG": str(server.kubeconfig)}
        (words,) = re.findall(r"^CMD (.+)$", (EXAMPLES / "compose" / "Dockerfile").read_text(), re.MULTILINE)
        assert "1 passed" in run(shlex.join(json.loads(words)), copied("compose", tmp_path), **variables)


def test_the_tests_of_compose_find_their_kubeconfig() -> None:
    """In the server's data directory, as its owner, where the address in it leads to the server."""
    tests, (directory,) = SERVICES["tests"], [flag for flag in entrypoint() if flag.startswith("--data-dir=")]
    path = directory.removeprefix("--data-dir=")
    assert SERVICES["apiserver"]["volumes"] == [f"credentials:{path}"]
    assert tests["volumes"] == [f"credentials:{path}:ro"]
    assert tests["environment"]["KUBECONFIG"] == f"{path}/admin.kubeconfig"
    assert tests["network_mode"] == "service:apiserver"
    assert f"USER {tests['user']}" in (ROOT / "Dockerfile").read_text()


# ---- Go


@pytest.mark.slow
def test_the_suite_in_go_passes(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("go is missing: https://go.dev/doc/install says how to install it; it has to be on PATH")
    directory = copied("go-envtest", tmp_path)
    _, tidy, *tests = commands("go-envtest")
    end = subprocess.run(tidy.split(), cwd=directory, capture_output=True, text=True, check=False)
    if end.returncode:  # A module proxy that cannot be reached says nothing about the server.
        pytest.skip(f"go could not get controller-runtime; it needs a module proxy: {end.stderr[-500:]}")
    assert run("gofmt -l .", directory) == ""
    for command in tests:
        assert re.search(r"^ok\s+example.com/quotas", run(command, directory), re.MULTILINE)


def test_the_commands_in_go_use_assets_that_are_made(tmp_path: Path) -> None:
    made = [
        inner for line in commands("go-envtest") for inner in re.findall(r"\$\((apiserver [^)]*)\)", line)
    ]
    assert len(made) == 2
    for command in made:
        assets = Path(run(command, tmp_path, HOME=str(tmp_path)).strip())
        assert {"etcd", "kube-apiserver"} <= {path.name for path in assets.iterdir()}
