"""What the server tells of versions that go away, and who still asks for them. Rows S05, S06, S07."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from apiserver.cli import deprecations
from apiserver.cli.api_client import RequestFailed
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.deprecations import DONE, GOES_AWAY
from tests.support.api import Api
from tests.support.audit import audit_flags
from tests.support.definitions import define, definition, new_group, version
from tests.support.eventually import until
from tests.support.metrics import metrics_of
from tests.support.server_process import ServerProcess

POLICY: Final = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""
DEBUG: Final = "/debug/deprecations"
CIDRS: Final = "/apis/networking.k8s.io/v1beta1/servicecidrs"
GONE: Final = "networking.k8s.io/v1beta1 ServiceCIDR is deprecated in v1.34+, unavailable in v1.37+"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("deprecations")
    flags = ("--runtime-config=api/beta=true", *audit_flags(directory, POLICY))
    with ServerProcess(directory / "data", *flags) as server:
        yield server


@pytest.fixture
def noted_of(server: ServerProcess) -> Callable[[str], dict[str, str]]:
    """Returns what the audit log says of a request, without why it was allowed."""
    log = server.data_dir.parent / "audit.log"

    def of(audit_id: str) -> dict[str, str]:
        def written() -> list[Any]:
            events = map(json.loads, log.read_text().splitlines())
            return [each for each in events if each["auditID"] == audit_id]

        (event,) = until(written, lambda events: len(events) == 1)
        found: dict[str, str] = event.get("annotations", {})
        return {key: value for key, value in found.items() if not key.startswith("authorization.k8s.io/")}

    return of


@pytest.fixture(scope="module")
def group(server: ServerProcess) -> str:
    """The group of a definition whose v1 is deprecated."""
    group = new_group()
    with Api(server) as api:
        versions = [version("v2"), version("v1", storage=False, deprecated=True)]
        define(api, definition(group, *versions))
    return group


# Source: k8s.io/apiserver, pkg/endpoints/deprecation; apiextensions-apiserver, customresource_handler.go.
SIGNALS: Final = {
    "S05 S06 S07, one that goes": (
        CIDRS,
        [GONE],
        {"k8s.io/deprecated": "true", "k8s.io/removed-release": "1.37"},
        [("networking.k8s.io", "v1beta1", "servicecidrs", "", "1.37")],
    ),
    "S05 S06 S07, one that stays": (
        "/api/v1/namespaces/default/endpoints",
        ["v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"],
        {"k8s.io/deprecated": "true"},
        [("", "v1", "endpoints", "", "")],
    ),
    "S05 S06 S07, a definition's": (
        "/apis/{group}/v1/widgets",
        ["{group}/v1 Widget is deprecated; use {group}/v2 Widget"],
        {"k8s.io/deprecated": "true"},
        [("{group}", "v1", "widgets", "", "")],
    ),
    "one that is not deprecated": ("/apis/networking.k8s.io/v1/servicecidrs", [], {}, []),
}


@pytest.mark.parametrize(("path", "warnings", "noted", "series"), SIGNALS.values(), ids=SIGNALS)
def test_signals(
    path: str,
    warnings: list[str],
    noted: dict[str, str],
    series: list[tuple[str, ...]],
    api: Api,
    group: str,
    noted_of: Callable[[str], dict[str, str]],
) -> None:
    answer = api.get(path.format(group=group))
    assert answer.status == 200
    assert answer.warnings == [each.format(group=group) for each in warnings]
    assert noted_of(answer.headers["audit-id"]) == noted
    names = ("group", "version", "resource", "subresource")
    asked, requested = samples(api)
    about = path.format(group=group).split("/")
    resource = about[-1]
    of_path = [each for each in requested if each["resource"] == resource and each["version"] in about]
    assert [(*(each[name] for name in names), each["removed_release"]) for each in of_path] == [
        tuple(value.format(group=group) for value in each) for each in series
    ]
    for each in of_path:
        # Row S07: they can be joined.
        assert [found for found in asked if all(found[name] == each[name] for name in names)]


def samples(api: Api) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    families = {each.name: each for each in text_string_to_metric_families(metrics_of(api))}
    total, deprecated = families["apiserver_request"], families["apiserver_requested_deprecated_apis"]
    assert {each.value for each in deprecated.samples} <= {1}
    return [each.labels for each in total.samples], [each.labels for each in deprecated.samples]


def rows(api: Api, user_agent: str) -> list[dict[str, Any]]:
    found = api.get(DEBUG).ok()["requests"]
    return [{**each, "lastSeen": "…"} for each in found if each["userAgent"] == user_agent]


def test_who_asks_is_told(api: Api) -> None:
    for _ in range(2):
        api.get(CIDRS, headers={"User-Agent": "old-operator/1.0", "Impersonate-User": "op"})
    api.get(CIDRS, headers={"User-Agent": "old-operator/1.0"}).ok()
    expected = {
        "group": "networking.k8s.io",
        "version": "v1beta1",
        "resource": "servicecidrs",
        "deprecatedRelease": "1.34",
        "removedRelease": "1.37",
        "replacement": "networking.k8s.io/v1 ServiceCIDR",
        "user": "admin",
        "userAgent": "old-operator/1.0",
        "count": 1,
        "lastSeen": "…",
    }
    assert rows(api, "old-operator/1.0") == [expected], "who may not do it does not count"
    document = api.get(DEBUG).ok()
    assert document["release"] == "1.36"
    assert document["since"] <= max(each["lastSeen"] for each in document["requests"])


REFUSED: Final = {
    "without the right": ("GET", "alice-token", 403),
    "another method": ("POST", "admin-token", 405),
}


@pytest.mark.parametrize(("method", "token", "code"), REFUSED.values(), ids=REFUSED)
def test_the_list_is_authorized_as_other_paths(api: Api, method: str, token: str, code: int) -> None:
    with api.as_caller(token) as caller:
        assert caller.send(method, DEBUG).status == code


# ---- apiserver deprecations


def run(server: ServerProcess, *arguments: str) -> tuple[int, str, str]:
    """The exit code, and what is printed to stdout and stderr."""
    printed, errors = io.BytesIO(), io.StringIO()
    with redirect_stdout(io.TextIOWrapper(printed, write_through=True)), redirect_stderr(errors):
        code = deprecations.run([f"--kubeconfig={server.kubeconfig}", *arguments])
        return code, printed.getvalue().decode(), errors.getvalue()


def test_the_command_prints_a_table(server: ServerProcess, api: Api) -> None:
    api.get(CIDRS, headers={"User-Agent": "bell\xc2\x9b31m-\xff-ringer"}).ok()
    code, printed, _ = run(server)
    head, *lines = printed.splitlines()
    assert code == DONE
    assert head.split("   ")[0] == "REMOVED IN"
    (line,) = (each for each in lines if "-ringer" in each)
    cells = [cell.strip() for cell in line.split("   ") if cell.strip()]
    assert cells[:3] == ["1.37", "networking.k8s.io/v1beta1 servicecidrs", "networking.k8s.io/v1 ServiceCIDR"]
    assert cells[3:6] == ["admin", "bell\\x9b31m-\ufffd-ringer", "1"], "nothing steers the terminal"


def test_the_command_prints_json(server: ServerProcess, api: Api) -> None:
    api.get(CIDRS).ok()
    code, printed, _ = run(server, "-o", "json")
    assert code == DONE
    assert json.loads(printed)["requests"] == api.get(DEBUG).ok()["requests"]


FAIL_IN: Final = {
    "before it goes": ("1.36", DONE, ""),
    "when it goes": ("1.37", GOES_AWAY, "networking.k8s.io/v1beta1 servicecidrs was called"),
    "after it has gone": ("v1.100", GOES_AWAY, "networking.k8s.io/v1beta1 servicecidrs was called"),
}


@pytest.mark.parametrize(("release", "code", "told"), FAIL_IN.values(), ids=FAIL_IN)
def test_the_command_fails_where_something_goes(
    server: ServerProcess, api: Api, release: str, code: int, told: str
) -> None:
    api.get(CIDRS).ok()
    found, _, errors = run(server, "--fail-in", release)
    assert found == code
    assert told in errors


@pytest.mark.parametrize("release", ["", "1", "1.x", "2.0", "1.38.1", "1.-2", "1.99999"])
def test_the_command_takes_releases_only(server: ServerProcess, release: str) -> None:
    with pytest.raises(UsageError, match="is not a release"):
        run(server, f"--fail-in={release}")


def test_the_command_needs_no_kubeconfig(server: ServerProcess, api: Api, tmp_path: Path) -> None:
    api.get(CIDRS).ok()
    token = tmp_path / "token"
    token.write_text("admin-token")
    whom = (f"--server={server.url}", f"--certificate-authority={server.ca_path}")
    code, printed, _ = run(server, *whom, f"--token-file={token}", "-o", "json")
    assert code == DONE
    assert json.loads(printed)["requests"] == api.get(DEBUG).ok()["requests"]
    with pytest.raises(RequestFailed, match="cannot get path"):
        run(server, *whom, "--token=alice-token")


def test_the_command_needs_a_server(tmp_path: Path) -> None:
    with pytest.raises(RequestFailed):
        deprecations.run([f"--kubeconfig={tmp_path / 'none'}"])
