"""Parses requests to kubelets, and makes the responses that reject them.

The API server has validated the options of `log`, `exec`, `attach` and `portforward`; requests to
`nodes/proxy` are forwarded as they are.
Source: k8s.io/kubernetes, pkg/kubelet/server/server.go; k8s.io/cri-streaming, pkg/streaming/remotecommand and
pkg/streaming/portforward.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import orjson
from aiohttp import hdrs, web
from multidict import MultiMapping

from apiserver.golang.quoting import go_quote
from apiserver.meta import timestamps
from apiserver.meta.errors import ApiError, BadRequest, Forbidden
from apiserver.testkit.simulation.logs import SECOND_NS, PodLogOptions
from apiserver.testkit.simulation.ports import parse_port
from apiserver.testkit.simulation.programs import STDERR, STDOUT

# Connections of one session to ports at the same time: each has two streams.
CONNECTIONS_MAX: Final = 100
NO_ADDRESS: Final = (
    "neither the annotation simulate.apiserver/ports nor the ports of a stage "
    "contain an address for this port"
)
PROTOCOL_HEADER: Final = "X-Stream-Protocol-Version"
_STREAMS: Final = {"input": "stdin", "output": "stdout", "error": "stderr"}
_LOG_STREAMS: Final = {
    "": frozenset({STDOUT, STDERR}),
    "All": frozenset({STDOUT, STDERR}),
    "Stdout": frozenset({STDOUT}),
    "Stderr": frozenset({STDERR}),
}
# Of a number that may be greater than any that matters.
_DIGITS_MAX: Final = 18
_SHOWN_LENGTH_MAX: Final = 200


def log_options(query: Mapping[str, str], now: float) -> PodLogOptions:
    """Returns the options of a request for logs. Raises BadRequest."""
    since = query.get("sinceTime", "")
    since_s = timestamps.from_text(since) if since else None
    if since and since_s is None:
        raise BadRequest(f"invalid sinceTime {go_quote(since)}")
    if (seconds := _number(query, "sinceSeconds")) is not None:
        since_s = now - seconds
    stream = query.get("stream", "")
    if stream not in _LOG_STREAMS:
        raise BadRequest(f"invalid stream type {go_quote(stream)}")
    return PodLogOptions(
        follow=_is_true(query, "follow"),
        previous=_is_true(query, "previous"),
        timestamps=_is_true(query, "timestamps"),
        tail_lines=_number(query, "tailLines"),
        since_ns=0 if since_s is None else round(since_s * SECOND_NS),
        limit_bytes=_number(query, "limitBytes"),
        streams=_LOG_STREAMS[stream],
    )


def _is_true(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "") in ("true", "1")


def _number(query: Mapping[str, str], name: str) -> int | None:
    """Returns a number in a query."""
    digits = query.get(name, "")
    if not digits:
        return None
    if not (digits.isascii() and digits.isdigit()):
        raise BadRequest(f"invalid {name} {go_quote(digits)}")
    return int(digits[:_DIGITS_MAX])


def ports_of(query: MultiMapping[str]) -> list[int]:
    """Returns the ports that a request forwards. Raises BadRequest."""
    texts = ",".join(query.getall("port", ()))
    if not texts:
        raise BadRequest('query parameter "port" is required')
    found = []
    for each in texts.split(","):
        port = parse_port(each)
        if port is None:
            raise BadRequest(f"unable to parse {go_quote(texts)} as a port")
        found.append(port)
    if len(found) > CONNECTIONS_MAX:
        raise BadRequest(f"at most {CONNECTIONS_MAX} ports can be forwarded at once")
    return found


def no_address(pod: str, ports: Sequence[int]) -> BadRequest:
    which = f"port {', '.join(map(str, ports))}" if ports else "any port"
    return BadRequest(f"pod {pod} is simulated and cannot forward {which}: {NO_ADDRESS}")


def asks_for_websocket(request: web.BaseRequest) -> bool:
    return request.headers.get(hdrs.UPGRADE, "").strip().lower() == "websocket"


def negotiated(request: web.BaseRequest, known: Sequence[str]) -> str:
    """Returns the protocol of an upgrade to SPDY. Raises BadRequest, Forbidden."""
    if not request.headers.get(hdrs.UPGRADE, "").upper().startswith("SPDY/3.1"):
        raise BadRequest("Upgrade request required")
    headers = request.headers.getall(PROTOCOL_HEADER, ())
    offered = [each.strip() for each in ",".join(headers).split(",") if each.strip()]
    if not offered:
        return known[-1]
    name = next((each for each in offered if each in known), None)
    if name is None:
        raise no_common_protocol(offered, known)
    return name


def no_common_protocol(offered: Iterable[str], known: Iterable[str]) -> Forbidden:
    return Forbidden(
        f"unable to upgrade: unable to negotiate protocol: client supports [{' '.join(offered)}], "
        f"server accepts [{' '.join(known)}]"
    )


def streams_of(query: Mapping[str, str], *, tty: bool) -> list[str]:
    """Returns the streams of a session, as `stdin`; a terminal has one output.

    Raises BadRequest.
    """
    wanted = [name for option, name in _STREAMS.items() if query.get(option) == "1"]
    if tty and "stderr" in wanted:
        wanted.remove("stderr")
    if not wanted:
        raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
    return wanted


def unknown_command(container: str, words: Sequence[str]) -> BadRequest:
    shown = go_quote(" ".join(words)[:_SHOWN_LENGTH_MAX])
    return BadRequest(
        f"container {container} is simulated and cannot run the command {shown}: neither the "
        "annotation simulate.apiserver/commands nor the commands of a stage contain this command"
    )


class NoPod(ApiError):
    code, reason = 404, "NotFound"

    def __init__(self) -> None:
        super().__init__("pod does not exist")


class NoContainer(ApiError):
    """A container does not exist, or does not run; the message is a kubelet's."""

    code, reason = 404, "NotFound"


class NotServed(ApiError):
    code, reason = 404, "NotFound"

    def __init__(self) -> None:
        super().__init__("simulated kubelets do not serve this path")


def refusal(error: ApiError, *, is_text: bool) -> web.Response:
    if is_text:
        return web.Response(status=error.code, text=error.message)
    return web.Response(status=error.code, body=orjson.dumps(error.status()), content_type="application/json")
