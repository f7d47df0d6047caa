"""Faults that tests inject into a server: which, when, and how often.

What it guarantees:

- *A fault is one that a real server can have.* Written objects stay written, no event is sent twice, and none
  overtakes another: a watch that continues after a fault has no gap.
- *It is counted.* The affected requests depend only on the requests and their order, not on time or chance,
  and `hits` counts how often a fault has happened. One that never happens is an error of the test.
- *It ends*: after its number of times, when its time is up, or when it is cleared.

`matches` selects requests and watches, `effects` describes the effects, `injector` keeps and counts the
current faults, and `documents` has them as JSON. All of these are pure. Effects are carried out where
requests are answered (`middleware`), events written (`watches`), and connections accepted
(`serving.listener`); `hooks` adds them to a server. `debug_endpoint` lets tests in any language inject them,
as `command` does (`apiserver faults`).

Left out: faults of the store, which look to clients like slowness, errors and restarts of the server.
"""

from apiserver.testkit.faults.effects import (
    Answer,
    CutConnection,
    Delay,
    Effect,
    EndWatch,
    ExpireToken,
    HoldBookmarks,
    HoldEvents,
    NotReady,
    RefuseTls,
)
from apiserver.testkit.faults.errors import InvalidFault, TooManyFaults
from apiserver.testkit.faults.injector import Fault, FaultInjector
from apiserver.testkit.faults.matches import Match, RequestAttributes

__all__ = [
    "Answer",
    "CutConnection",
    "Delay",
    "Effect",
    "EndWatch",
    "ExpireToken",
    "Fault",
    "FaultInjector",
    "HoldBookmarks",
    "HoldEvents",
    "InvalidFault",
    "Match",
    "NotReady",
    "RefuseTls",
    "RequestAttributes",
    "TooManyFaults",
]
