"""What functions of extensions may do to writes, in a worker process and inline."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.extensions.modules.admission import INLINE_S
from tests.extensions.support import worker_of
from tests.support.api import Answer, Api
from tests.support.audit import audit_flags
from tests.support.eventually import until
from tests.support.metrics import metric
from tests.support.objects import config_map
from tests.support.server_process import ServerProcess

MODULE: Final = "tests.extensions.modules.admission"
PATH: Final = "/api/v1/namespaces/default/configmaps"
MODES: Final = ("process", "inline")
AUDIT: Final = (
    "{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [RequestReceived], rules: [{level: Metadata}]}"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("server")
    flags = [f"--extension={MODULE}:{each}" for each in (*MODES, "slow", "mixed")]
    with ServerProcess(directory / "data", *flags, *audit_flags(directory, AUDIT)) as server:
        yield server


@pytest.fixture(scope="module")
def api(server: ServerProcess) -> Iterator[Api]:
    with Api(server) as api:
        yield api


def body(case: str, mode: str, **fields: Any) -> dict[str, Any]:
    metadata = {"generateName": "a-", "labels": {"in": mode, "case": case}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}, **fields}


def post(api: Api, case: str, mode: str, query: str = "", **fields: Any) -> Answer:
    return api.post(f"{PATH}{query}", body(case, mode, **fields))


# What the function makes of {"a": "b"}.
MUTATED: Final = {
    "sets_a_field": {"a": "b", "currency": "EUR"},
    "returns_another_object": {"other": "yes"},
    "changes_one_and_returns_another": {"kept": "yes"},
    "changes_nothing": {"a": "b"},
    "adds_an_unknown_field": {"a": "b"},
    "is_ignored": {"a": "b"},
    "is_warned_of": {"a": "b"},
    "is_ignored_with_a_wrong_object": {"a": "b"},
    "is_ignored_with_a_cycle": {"a": "b"},
    "is_ignored_when_it_exits": {"a": "b"},
    "changes_what_it_validates": {"a": "b"},
    "makes_no_object_of_what_it_validates": {"a": "b"},
    "fails_with_a_warning": {"a": "b"},
    # It is called again after `follows` has changed the object.
    "counts_its_calls": {"a": "b", "calls": "2", "followed": "yes"},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", MUTATED)
def test_what_is_stored(api: Api, case: str, mode: str) -> None:
    created = post(api, case, mode).ok()
    assert created["data"] == MUTATED[case]
    assert created["metadata"]["labels"]["in"] == mode
    assert "unknown" not in created
    assert api.get(f"{PATH}/{created['metadata']['name']}").ok() == created


DENIED: Final = 'extension "{mode}" denied the request'
INVALID: Final = 'Internal error occurred: extension "{mode}": {case} (admission.py:'
REFUSED: Final = {
    "refuses": (403, "Forbidden", f"{DENIED}: over budget"),
    "refuses_without_a_reason": (403, "Forbidden", f"{DENIED}: Forbidden"),
    "refuses_after_a_change": (422, "QuotaExceeded", f"{DENIED}: over budget"),
    "fails_after_a_change": (500, "InternalError", "failed at admission.py:"),
    "returns_a_list": (500, "InternalError", "must return None or an object, not list"),
    "returns_false": (500, "InternalError", "must return None, and raise Denied to refuse; it returned bool"),
    "makes_a_wrong_type": (500, "InternalError", "has returned an invalid object: "),
    "makes_another_kind": (500, "InternalError", "another kind of the object: v1, Kind=Secret"),
    "makes_a_set": (500, "InternalError", "Type is not JSON serializable: set"),
    "makes_a_cycle": (500, "InternalError", "Recursion limit reached"),
    "makes_deep_lists": (500, "InternalError", "Recursion limit reached"),
    "moves_it": (500, "InternalError", "the namespace of the provided object does not match the namespace"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(api: Api, case: str, mode: str) -> None:
    code, reason, message = REFUSED[case]
    answer = post(api, case, mode)
    assert (answer.status, answer.reason) == (code, reason)
    assert message.format(mode=mode) in answer.message
    if code == 500:
        assert answer.message.startswith(INVALID.format(mode=mode, case=case))


@pytest.mark.parametrize("mode", MODES)
def test_a_refusal_names_the_field(api: Api, mode: str) -> None:
    causes = post(api, "refuses", mode).json["details"]["causes"]
    assert causes == [{"message": "over budget", "field": "data.cost"}]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", ["is_warned_of", "fails_with_a_warning"])
def test_a_failure_that_is_a_warning_names_extension_function_and_line(
    api: Api, case: str, mode: str
) -> None:
    [warning] = post(api, case, mode).warnings
    assert f'extension \\"{mode}\\": {case} (admission.py:' in warning
    assert "failed at admission.py:" in warning


@pytest.mark.parametrize("mode", MODES)
def test_a_function_takes_what_its_parameters_name(api: Api, server: ServerProcess, mode: str) -> None:
    created = post(api, "takes_all", mode, "?dryRun=All")
    known = {"user": "admin", "groups": "system:masters,system:authenticated", "namespace": "default"}
    new = {"old": "", "operation": "CREATE", "options": "CreateOptions"}
    assert created.ok()["data"] | {"name": ""} == {**known, **new, "name": ""}
    assert created.warnings == ["dry_run=True"]
    stored = post(api, "takes_all", mode).ok()
    name = stored["metadata"]["name"]
    updated = api.put(f"{PATH}/{name}", stored)
    changed = {"old": name, "operation": "UPDATE", "options": "UpdateOptions"}
    assert updated.ok()["data"] == {**known, **changed, "name": name}
    assert updated.warnings == ["dry_run=False"]


# As webhooks by their sideEffects: what a dry run shows; None if it is refused.
DRY_RUNS: Final = {
    "sets_a_field": {"a": "b", "currency": "EUR"},
    "has_side_effects": None,
    "leaves_out_side_effects": {"a": "b", "counted": "False"},
    "asks_the_request": {"a": "b", "counted": "False"},
    "is_not_ignored": None,
    "validates_with_side_effects": None,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", DRY_RUNS)
def test_dry_runs_are_refused_if_a_function_would_have_side_effects(api: Api, case: str, mode: str) -> None:
    answer, shown = post(api, case, mode, "?dryRun=All"), DRY_RUNS[case]
    if shown is None:
        message = f'extension "{mode}": {case} does not support dry run'
        assert (answer.status, answer.reason, answer.message) == (400, "BadRequest", message)
    else:
        assert answer.ok()["data"] == shown
    assert post(api, case, mode).status == 201


@pytest.mark.parametrize("mode", MODES)
def test_audit_events_show_annotations_changes_and_ignored_failures(
    api: Api, server: ServerProcess, mode: str
) -> None:
    seen = _annotations(api, server, "takes_all", mode)
    assert seen[f"{mode}/seen-by"] == "takes-all"
    [told] = [json.loads(value) for key, value in seen.items() if key.startswith("mutation.extension.")]
    assert told == {"extension": mode, "hook": "takes_all", "mutated": True}
    ignored = _annotations(api, server, "is_ignored", mode)
    open_ = [value for key, value in ignored.items() if key.startswith("failed-open.mutation.extension.")]
    assert open_ == [f"{mode}/is_ignored"]


def _annotations(api: Api, server: ServerProcess, case: str, mode: str) -> dict[str, str]:
    answer = post(api, case, mode)
    answer.ok()
    log, key = server.data_dir.parent / "audit.log", answer.headers["audit-id"]

    def events() -> list[dict[str, Any]]:
        found = [json.loads(line) for line in log.read_text().splitlines()]
        return [each for each in found if each["auditID"] == key]

    [found] = until(events)
    annotations: dict[str, str] = found["annotations"]
    return annotations


@pytest.mark.parametrize("mode", MODES)
def test_failures_are_counted(api: Api, mode: str) -> None:
    def counts(case: str) -> tuple[float, ...]:
        labels = {"extension": mode, "hook": case}
        return (
            metric(api, "apiserver_extension_failures_total", **labels, failure="error"),
            metric(api, "apiserver_extension_ignored_failures_total", **labels),
        )

    before = {case: counts(case) for case in ("fails_after_a_change", "is_ignored", "makes_another_kind")}
    for case in before:
        post(api, case, mode)
    grown = {case: tuple(b - a for a, b in zip(before[case], counts(case), strict=True)) for case in before}
    assert grown == {"fails_after_a_change": (1, 0), "is_ignored": (1, 1), "makes_another_kind": (1, 0)}


@pytest.mark.parametrize(("mode", "is_own"), [("inline", True), ("process", False)])
@pytest.mark.parametrize("case", ["changes_nothing", "returns_false"])
def test_only_the_time_of_an_inline_function_is_the_servers_own(
    api: Api, case: str, mode: str, is_own: bool
) -> None:
    before_s = not_own_s(api)
    post(api, case, mode)
    assert (not_own_s(api) - before_s < 1e-9) == is_own


def not_own_s(api: Api) -> float:
    """Returns how long requests about config maps have waited for others."""
    names = ("request_duration", "request_sli_duration")
    all_s, own_s = (metric(api, f"apiserver_{each}_seconds_sum", resource="configmaps") for each in names)
    return all_s - own_s


def test_the_time_of_an_inline_function_is_the_servers_own_beside_one_in_a_process(api: Api) -> None:
    before_s, began = not_own_s(api), time.perf_counter()
    api.post(PATH, {"metadata": {"name": "mixed"}}).ok()
    took_s = time.perf_counter() - began
    assert 0 < not_own_s(api) - before_s < took_s - INLINE_S


def test_an_inline_function_that_takes_too_long_runs_in_the_worker_after_three_times(
    api: Api, server: ServerProcess
) -> None:
    def pid(number: int) -> int:
        created = api.post(PATH, {"metadata": {"name": f"slow-{number}"}, "data": {"pid": "0"}}).ok()
        return int(created["data"]["pid"])

    assert [pid(number) for number in range(3)] == [server.pid] * 3
    assert (
        metric(api, "apiserver_extension_inline_overruns_total", extension="slow", hook="takes_its_time") == 3
    )
    # In the worker, its time is over.
    assert pid(3) == 0
    assert server.stderr.count('extension "slow": takes_its_time (admission.py:') >= 4
    assert "and the server waits for it" in server.stderr
    assert "time.sleep(0.1)" in server.stderr
    assert "from now on it is not called inline" in server.stderr


CHECK: Final = "authorizer.group('').resource('pods').check('get').allowed()"
# A condition, and what is wrong with it.
CONDITIONS: Final = {
    "one that does not compile": ("object.", "where='object.': compilation failed: "),
    "one that costs too much": (
        f"{CHECK} && {CHECK} && {CHECK}",
        "the estimated cost is 1050012, and exceeds the limit of 1000000 by a factor of 1.1",
    ),
}


@pytest.mark.parametrize("case", CONDITIONS)
def test_a_condition_that_cannot_be_used_prevents_the_start(tmp_path: Path, case: str) -> None:
    where, problem = CONDITIONS[case]
    module = tmp_path / "with_a_bad_condition.py"
    module.write_text(
        "from apiserver.extensions import Extension\n"
        "app = Extension('shop')\n"
        f"@app.validate('pods', where={where!r})\n"
        "def budget(pod): ...\n"
    )
    server = ServerProcess(
        tmp_path / "data",
        "--extension=with_a_bad_condition",
        module="apiserver",
        environment={"PYTHONPATH": str(tmp_path)},
    )
    refusal = server.refusal()
    assert refusal.code == 1
    assert 'extension "shop": budget (with_a_bad_condition.py:3): where=' in refusal.stderr
    assert problem in refusal.stderr


CODE: Final = """
import os
from apiserver.extensions import Extension
app = Extension("own")

@app.mutate("configmaps", inline=True)
def marks(config_map{more}):
    config_map["data"] = {{"by": {by}, "pid": str(os.getpid())}}
"""


def test_after_a_reload_the_new_code_of_an_inline_function_runs_in_the_worker(tmp_path: Path) -> None:
    code = tmp_path / "modules" / "own_inline.py"
    code.parent.mkdir()
    code.write_text(CODE.format(more="", by="'nobody'"))
    process = ServerProcess(
        tmp_path / "data",
        "--extension=own_inline",
        module="apiserver",
        environment={"PYTHONPATH": str(code.parent)},
    )
    with process as server, Api(server) as api:

        def data() -> Any:
            return api.post(f"{PATH}?dryRun=All", config_map("a")).ok()["data"]

        assert data() == {"by": "nobody", "pid": str(server.pid)}
        code.write_text(CODE.format(more=", user", by="user.name"))
        until(lambda: data()["by"] == "admin", within_s=60)
        assert data() == {"by": "admin", "pid": str(worker_of(server))}
