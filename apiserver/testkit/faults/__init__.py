"""Faults that a server has on purpose, so that its clients can be tested: which, when, and how often.

What it guarantees:

- *A fault is one that a real server can have.* What was written is written, no event comes twice, and none
  overtakes another: a watch that goes on after a fault has no hole.
- *It is counted.* Which requests a fault is for depends on them and on their order alone, not on time or
  chance, and `hits` counts how often it has happened. One that never happens is a mistake of the test's.
- *It ends*: when it has happened as often as it says, when its time is up, or when it is cleared.

`matches` says which requests and watches, `effects` what happens to them, `injector` keeps the faults that
there are and counts, and `documents` has them as JSON. All of these are pure. What carries effects out is
where requests are answered (`middleware`), events written (`watches`), and connections accepted
(`serving.listener`); `hooks` adds it to a server. `debug_endpoint` lets tests in any language inject them, as
`command` does (`apiserver faults`).

Left out: faults of the store, which no client can tell from slowness, errors and restarts of the server.
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
