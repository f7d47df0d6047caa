"""`apiserver storage rewrite` against a server in memory: what it asks and counts, and how it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest

from apiserver.cli.argument_parser import UsageError
from apiserver.cli.rewriter import (
    ATTEMPTS_MAX,
    CONCURRENT_WRITES,
    HISTORY_PATH,
    PAST_PATH,
    Interrupted,
    RewriteFailed,
    Rewriter,
    ServerResponse,
)
from apiserver.cli.storage import resume_hint, run

ALL: Final = ["create", "list", "patch"]
CORE: Final = [
    {"name": "configmaps", "namespaced": True, "verbs": ALL},
    {"name": "events", "namespaced": True, "verbs": ALL},
    {"name": "nodes", "namespaced": False, "verbs": ALL},
    {"name": "nodes/status", "namespaced": False, "verbs": ALL},
    {"name": "bindings", "namespaced": True, "verbs": ["create"]},
]
SERVED: Final = {
    "/api/v1": CORE,
    "/apis/example.com/v2": [{"name": "widgets", "namespaced": True, "verbs": ALL}],
    "/apis/example.com/v1": [
        {"name": "widgets", "namespaced": True, "verbs": ALL},
        {"name": "gadgets", "namespaced": True, "verbs": ALL},
    ],
    "/apis/metrics.k8s.io/v1": [{"name": "pods", "namespaced": True, "verbs": ALL}],
    "/apis/events.k8s.io/v1": [{"name": "events", "namespaced": True, "verbs": ALL}],
}


class Server:
    """Answers as a server with some ConfigMaps. Those in `stale` are written when they are patched.

    answers: of paths, in place of its own; each once.
    history: what it answers to requests to rewrite its history; empty if it has none.
    of_history: the queries of these requests.
    """

    def __init__(self, count: int = 3, stale: frozenset[str] = frozenset()) -> None:
        self.names = [f"c{number:03}" for number in range(count)]
        self.stale = stale
        self.page = 1_000
        self.patched: list[str] = []
        self.answers: dict[str, list[ServerResponse]] = {}
        self.history: list[dict[str, Any]] = []
        self.of_history: list[str] = []
        self.on_patch: Callable[[str], None] = lambda name: None

    def done(self) -> list[str]:
        """The names of what was written."""
        return sorted(path.rpartition("/")[2] for path in self.patched)

    async def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> ServerResponse:
        url = urlsplit(target)
        if waiting := self.answers.get(url.path):
            return waiting.pop(0)
        if method == "PATCH":
            assert body == b"{}"
            name = url.path.rpartition("/")[2]
            self.patched.append(url.path)
            self.on_patch(name)
            return ServerResponse(200, {"metadata": {"resourceVersion": "2" if name in self.stale else "1"}})
        if url.path == "/apis":
            groups = {"example.com": ["v2", "v1"], "metrics.k8s.io": ["v1"], "events.k8s.io": ["v1"]}
            return ServerResponse(200, {"groups": [_group(name, each) for name, each in groups.items()]})
        if url.path == "/apis/apiregistration.k8s.io/v1/apiservices":
            elsewhere = {"group": "metrics.k8s.io", "version": "v1", "service": {"name": "metrics"}}
            here = {"group": "example.com", "version": "v1"}
            return ServerResponse(200, {"items": [{"spec": elsewhere}, {"spec": here}]})
        if url.path in SERVED:
            return ServerResponse(200, {"resources": SERVED[url.path]})
        if url.path == HISTORY_PATH:
            assert method == "POST"
            self.of_history.append(url.query)
            rewritten = self.history.pop(0) if self.history else None
            return failure(404) if rewritten is None else ServerResponse(200, rewritten)
        names = self.names if url.path == "/api/v1/configmaps" else []
        start = int(parse_qs(url.query).get("continue", ["0"])[0])
        end = start + self.page
        items = [
            {"metadata": {"name": name, "namespace": "ns", "resourceVersion": "1"}}
            for name in names[start:end]
        ]
        more = {"continue": str(end), "remainingItemCount": len(names) - end} if end < len(names) else {}
        return ServerResponse(200, {"metadata": more, "items": items})


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    each = [{"groupVersion": f"{name}/{version}"} for version in versions]
    return {"name": name, "versions": each, "preferredVersion": each[0]}


class Run:
    """A run of the command: what it prints, and warns of."""

    def __init__(self, server: Server) -> None:
        self.told: list[str] = []
        self.warned: list[str] = []
        self.rewriter = Rewriter(
            server.send,
            rate=100_000,
            tell=self.told.append,
            warn=self.warned.append,
            retry_first_s=0.001,
        )


def failure(status: int, message: str = "no", **more: Any) -> ServerResponse:
    return ServerResponse(status, {"message": message, **more})


async def test_all_that_is_stored_here_is_rewritten() -> None:
    """But no events, no subresources, no virtual resources, and nothing of other servers."""
    server = Server(stale=frozenset({"c001"}))
    run_ = Run(server)
    await run_.rewriter.run([], "")
    nothing = "0 rewritten, 0 up to date"
    assert run_.told == [
        "configmaps: 1 rewritten, 2 up to date",
        f"gadgets.example.com: {nothing}",
        f"nodes: {nothing}",
        f"widgets.example.com: {nothing}",
    ]
    assert sorted(server.patched) == [f"/api/v1/namespaces/ns/configmaps/{name}" for name in server.names]


async def test_what_is_named() -> None:
    run_ = Run(Server())
    await run_.rewriter.run(["nodes", "events"], "")
    assert [line.partition(":")[0] for line in run_.told] == ["events", "nodes"]
    with pytest.raises(RewriteFailed, match=r"the server has no resource pods, secrets\.apps that can be"):
        await run_.rewriter.run(["secrets.apps", "nodes", "pods"], "")


async def test_what_other_servers_have_is_left_alone_though_this_one_is_busy() -> None:
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    server = Server()
    server.answers[services] = [failure(503)]
    run_ = Run(server)
    await run_.rewriter.run([], "")
    assert "pods.metrics.k8s.io" not in " ".join(run_.told)
    server.answers[services] = [failure(500, "broken")] * ATTEMPTS_MAX
    with pytest.raises(RewriteFailed, match="apiservices: broken"):
        await run_.rewriter.run([], "")
    # Who may not know, or asks a server that does not aggregate, has what is served rewritten.
    for status in (403, 404):
        server.answers[services] = [failure(status)]
        await run_.rewriter.run(["nodes"], "")


async def test_pages_and_one_that_expires() -> None:
    server = Server(20)
    server.page = 8
    run_ = Run(server)
    answers = [await server.send("GET", "/api/v1/configmaps?limit=8", {}, b""), failure(410)]
    server.answers["/api/v1/configmaps"] = answers
    await run_.rewriter.run(["configmaps"], "")
    assert server.done() == server.names


BUSY: Final = {
    "too many requests": ServerResponse(429, {}, retry_after_s=0.0),
    "the store is not there": failure(503),
}


@pytest.mark.parametrize("answer", BUSY.values(), ids=BUSY)
async def test_who_is_busy_is_asked_again(answer: ServerResponse) -> None:
    server = Server(1)
    server.answers["/api/v1/namespaces/ns/configmaps/c000"] = [answer]
    run_ = Run(server)
    await run_.rewriter.run(["configmaps"], "")
    assert run_.told == ["configmaps: 0 rewritten, 1 up to date"]
    assert run_.rewriter.failed == 0


async def test_what_fails_is_named_and_the_rest_goes_on() -> None:
    server = Server(3)
    server.answers["/api/v1/namespaces/ns/configmaps/c001"] = [failure(422, "a webhook refuses it")]
    server.answers["/api/v1/namespaces/ns/configmaps/c002"] = [failure(404)]
    run_ = Run(server)
    await run_.rewriter.run(["configmaps"], "")
    assert run_.told == ["configmaps: 0 rewritten, 1 up to date, 1 failed"]
    assert run_.warned == ["configmaps/ns/c001: a webhook refuses it"]
    assert run_.rewriter.failed == 1


async def test_corrupt_objects_are_named() -> None:
    server = Server()
    details = {"causes": [{"field": "/registry/core/configmaps/ns/c001", "message": "…"}]}
    corrupt = failure(500, "failed to read", reason="StorageReadError", details=details)
    server.answers["/api/v1/configmaps"] = [corrupt]
    run_ = Run(server)
    await run_.rewriter.run(["configmaps", "nodes"], "")
    assert run_.warned == ["configmaps: failed to read: /registry/core/configmaps/ns/c001"]
    assert run_.told[1] == "nodes: 0 rewritten, 0 up to date"
    assert run_.rewriter.failed == 1


async def test_a_run_that_is_stopped_goes_on_where_it_was() -> None:
    """Nothing is left out, and little is done twice."""
    server = Server(3 * CONCURRENT_WRITES)
    first = Run(server)
    server.on_patch = lambda name: first.rewriter.stop() if name == server.names[9] else None
    with pytest.raises(Interrupted) as raised:
        await first.rewriter.run([], "")
    done = 2 * CONCURRENT_WRITES
    assert raised.value.position == f"configmaps/ns/{server.names[done - 1]}"
    second = Run(server)
    await second.rewriter.run([], raised.value.position)
    assert server.done() == server.names
    assert len(second.told) == 4
    third = Run(server)
    await third.rewriter.run([], "nodes/n1")
    assert [line.partition(":")[0] for line in third.told] == ["nodes", "widgets.example.com"]


def part_of_history(position: str = "", lost: int = 0) -> dict[str, Any]:
    more = {"continue": position} if position else {}
    return {"rewritten": 3, "unchanged": 1, "lost": lost, **more}


async def test_the_history_is_rewritten_in_parts_after_the_objects() -> None:
    server = Server()
    server.history = [part_of_history("70"), part_of_history("90"), part_of_history()]
    run_ = Run(server)
    await run_.rewriter.run([], "")
    assert run_.told[-1] == "history: 9 rewritten, 3 up to date"
    assert server.of_history == ["continue=0", "continue=70", "continue=90"]
    assert run_.rewriter.failed == 0


async def test_of_the_history_what_is_named_is_rewritten() -> None:
    server = Server()
    server.history = [part_of_history()]
    run_ = Run(server)
    await run_.rewriter.run(["nodes", "gadgets.example.com"], "")
    assert server.of_history == ["resources=gadgets.example.com%2Cnodes&continue=0"]


async def test_an_interrupted_rewrite_of_the_history_goes_on() -> None:
    server = Server()
    server.history = [part_of_history("70"), part_of_history()]
    first = Run(server)

    async def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> ServerResponse:
        if target.startswith(HISTORY_PATH):
            first.rewriter.stop()
        return await server.send(method, target, headers, body)

    first.rewriter = Rewriter(send, rate=100_000, tell=first.told.append, warn=first.warned.append)
    with pytest.raises(Interrupted) as raised:
        await first.rewriter.run(["nodes"], "")
    assert raised.value.position == "history/70"
    second = Run(server)
    await second.rewriter.run(["nodes"], raised.value.position)
    assert second.told == ["history: 3 rewritten, 1 up to date"]
    assert server.of_history == ["resources=nodes&continue=0", "resources=nodes&continue=70"]


# What the server answers, the warning, and how many failures that is.
FAILURES_OF_HISTORY: Final = {
    "values under a key that is gone": (
        ServerResponse(200, part_of_history(lost=2)),
        "history: 2 values cannot be decrypted: a key is missing",
    ),
    "no right": (failure(403, "forbidden"), "history: forbidden"),
}


@pytest.mark.parametrize(("answer", "why"), FAILURES_OF_HISTORY.values(), ids=FAILURES_OF_HISTORY)
async def test_a_history_that_is_not_rewritten_is_a_failure(answer: ServerResponse, why: str) -> None:
    server = Server()
    server.answers[HISTORY_PATH] = [answer]
    server.answers[PAST_PATH] = [ServerResponse(200, {})]
    run_ = Run(server)
    await run_.rewriter.run(["nodes"], "")
    assert run_.warned == [why]
    assert run_.rewriter.failed == 1


@pytest.mark.parametrize("status", [403, 404])
async def test_a_history_that_does_not_exist_is_no_failure_for_users_who_may_not_rewrite_it(
    status: int,
) -> None:
    server = Server()
    server.answers[HISTORY_PATH] = [failure(403, "forbidden")]
    server.answers[PAST_PATH] = [failure(status)]
    run_ = Run(server)
    await run_.rewriter.run(["nodes"], "")
    assert (run_.warned, run_.rewriter.failed) == ([], 0)


HISTORY_POSITIONS: Final = {"a position again": "70", "an earlier position": "60", "no number": "x"}


@pytest.mark.parametrize("position", HISTORY_POSITIONS.values(), ids=HISTORY_POSITIONS)
async def test_a_history_without_an_end(position: str) -> None:
    server = Server()
    server.history = [part_of_history("70"), part_of_history(position)]
    with pytest.raises(RewriteFailed, match=r"/history/rewrite"):
        await Run(server).rewriter.run(["nodes"], "")


async def test_a_position_of_another_run() -> None:
    with pytest.raises(RewriteFailed, match="--after: nodes is not one of the resources to rewrite"):
        await Run(Server()).rewriter.run(["configmaps"], "nodes/n1")


async def test_a_server_that_does_not_respond_is_waited_for_and_not_for_ever() -> None:
    run_ = Run(Server())
    asked: list[str] = []

    async def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> ServerResponse:
        asked.append(target)
        if target == "/apis":
            raise RewriteFailed("no answer")
        return ServerResponse(200, {})

    run_.rewriter = Rewriter(
        send, rate=1, tell=run_.told.append, warn=run_.warned.append, retry_first_s=0.001
    )
    with pytest.raises(RewriteFailed, match="no answer"):
        await run_.rewriter.run([], "")
    assert asked.count("/apis") == ATTEMPTS_MAX


async def test_a_server_that_has_never_responded_is_not_waited_for() -> None:
    run_ = Run(Server())
    asked: list[str] = []

    async def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> ServerResponse:
        asked.append(target)
        raise RewriteFailed("no answer")

    run_.rewriter = Rewriter(send, rate=1, tell=run_.told.append, warn=run_.warned.append)
    with pytest.raises(RewriteFailed, match="no answer"):
        await run_.rewriter.run([], "")
    assert len(asked) == 1


async def test_a_list_without_an_end() -> None:
    server = Server()
    endless = {"metadata": {"continue": "x"}, "items": []}
    server.answers["/api/v1/configmaps"] = [ServerResponse(200, endless)] * 3
    with pytest.raises(RewriteFailed, match=r"^/api/v1/configmaps: the list does not end$"):
        await Run(server).rewriter.run(["configmaps"], "")


async def test_a_server_that_goes_while_objects_are_written() -> None:
    """The command ends in one line, not in a trace of all writes that were under way."""
    server = Server(count=20)
    run_ = Run(server)

    async def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> ServerResponse:
        if method == "PATCH":
            raise RewriteFailed("no answer")
        return await server.send(method, target, headers, body)

    run_.rewriter = Rewriter(
        send, rate=100_000, tell=run_.told.append, warn=run_.warned.append, retry_first_s=0.001
    )
    with pytest.raises(RewriteFailed, match=r"^no answer$"):
        await run_.rewriter.run(["configmaps"], "")


# By either name: what the command calls itself is what it was called by.
CALLED: Final = {"storage rewrite": ["storage", "rewrite"], "migrate": ["migrate"]}


@pytest.mark.parametrize(("name", "command"), CALLED.items(), ids=CALLED)
def test_how_to_go_on(name: str, command: list[str]) -> None:
    arguments = [*command, "--after", "a/b", "--after=c", "--data-dir", "a dir", "secrets"]
    hint = list(resume_hint(arguments, Interrupted("secrets/ns/x")))
    assert hint == [
        "interrupted",
        f"continue with: apiserver {name} --data-dir 'a dir' secrets --after=secrets/ns/x",
    ]
    assert list(resume_hint(arguments, Interrupted(""))) == ["interrupted"]


@pytest.mark.parametrize(("name", "command"), CALLED.items(), ids=CALLED)
def test_help_has_the_name_of_the_command(
    name: str, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run([*command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"Usage: apiserver {name} [RESOURCE ...] [flags]\n")


# What is wrong with the arguments, and what is told behind the name of the command.
REFUSED: Final = {
    "no number": (["--rate=fast"], "argument --rate: 'fast' is not a number from 1 to 100000"),
    "none at all": (["--rate=0"], "argument --rate: '0' is not a number from 1 to 100000"),
    "no server": (
        ["--data-dir=/no/such"],
        "/no/such/admin.kubeconfig does not exist; use --kubeconfig or --data-dir to name the server",
    ),
}


@pytest.mark.parametrize(("name", "command"), CALLED.items(), ids=CALLED)
@pytest.mark.parametrize(("arguments", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(name: str, command: list[str], arguments: list[str], why: str) -> None:
    with pytest.raises(UsageError) as refused:
        run([*command, *arguments])
    assert str(refused.value) == f"{name}: {why}"


def test_storage_has_a_command() -> None:
    with pytest.raises(UsageError, match=r"^storage: the following arguments are required: rewrite\|copy$"):
        run(["storage"])


def test_a_kubeconfig_that_is_not_there() -> None:
    with pytest.raises(RewriteFailed, match="cannot read /no/such: No such file or directory"):
        run(["migrate", "--kubeconfig=/no/such"])


APIS: Final = "/apis"
API_SERVICES: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
CONFIG_MAPS: Final = "/api/v1/configmaps"
FIRST: Final = "/api/v1/namespaces/ns/configmaps/c000"
# Answers with 200 of something that is no API server, or a broken one.
MALFORMED: Final[dict[str, tuple[str, Mapping[str, Any]]]] = {
    "no groups": (APIS, {}),
    "groups that are none": (APIS, {"groups": "x"}),
    "groups without versions": (APIS, {"groups": [{}]}),
    "no resources": ("/api/v1", {}),
    "resources without names": ("/api/v1", {"resources": [{}]}),
    "registrations that are none": (API_SERVICES, {"items": [1]}),
    "registrations without a spec": (API_SERVICES, {"items": [{}]}),
    "a list without metadata": (CONFIG_MAPS, {"items": []}),
    "objects that are none": (CONFIG_MAPS, {"metadata": {}, "items": [1]}),
    "objects without names": (CONFIG_MAPS, {"metadata": {}, "items": [{"metadata": {}}]}),
    "a number that is none": (CONFIG_MAPS, {"metadata": {"remainingItemCount": "x"}, "items": []}),
    "an object that was written, without metadata": (FIRST, {}),
}


@pytest.mark.parametrize(("path", "document"), MALFORMED.values(), ids=MALFORMED)
async def test_answers_that_are_none_end_it(path: str, document: Mapping[str, Any]) -> None:
    """It would seem that all is done, and that an old key may be taken away."""
    server = Server(1)
    server.answers[path] = [ServerResponse(200, document)]
    with pytest.raises(RewriteFailed) as failed:
        await Run(server).rewriter.run([], "")
    assert str(failed.value) == f"the server's response to {path} is not valid"
