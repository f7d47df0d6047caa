"""A real API server inside tests: `with ApiServer() as server:`.

What it guarantees:

- *It is the server that users run*, over HTTPS, with all its admission and controllers. Only the store is
  in memory, unless a directory is given for it: the same code, without files.
- *The process is not changed.* A server in a thread sets no signal handler, no limit, no option of the
  allocator, the interpreter or logging. Its loggers are below `apiserver`, and propagate. The garbage
  collector pauses while a fork begins, or a server is reset, which takes milliseconds. One filter of warnings
  remains, for those of `cryptography` about foreign certificates (`golang.x509_parsing`).
- *Any number of servers*, one after another or together, in one process or several: each has its own free
  port and directory.
- *A fork is a separate server*, which begins with the same objects and revisions, and shares their bytes. A
  server that is reset continues at its address as if it was restored from a backup: its connections end, and
  requests for an earlier resourceVersion get 410 Gone.
- *Each server has its own clock*, which can be advanced: everything that a client can see follows
  (`apiserver.registry.clock`).
- *It stops at once and completely*: `stop` leaves no thread, task, socket or file, whatever was under way.

`server` has `ApiServer`. `runners` runs it: `ServerThread` in this process, and `ServerChild` in a child
process, whose program is `child` and which also ends when its parent is killed. `etcd_probe` quickly detects
a missing etcd. `credentials` makes kubeconfigs of users and service accounts, and `snapshots` has the state
that servers can begin with. `clock` advances a server's clock, and `server_time` implements such a clock.
`manifests` loads files, `faults` injects faults (the effects are in `apiserver.testkit.faults`), `resources`
finds the resource of a kind, and `waiting` waits for conditions by watches. `timeline` lists the writes of an
object, `differences` the changed fields, and `failure_report` describes a server when a test fails. `errors`
has the exceptions. `apiserver.pytest_plugin` has the fixtures. `containers`, for users of testcontainers, has
a server in a container.

docs/testing is for users. What this module exports is public, and part of the semantic version.
It needs neither pytest nor a client library.
"""

from apiserver.load.collection_pause import lasting_imports

with lasting_imports():
    from apiserver.testing.clock import Clock
    from apiserver.testing.credentials import User
    from apiserver.testing.differences import Change
    from apiserver.testing.errors import (
        ClockNotAdvanced,
        ManifestNotLoaded,
        NotInThisProcess,
        NotInTime,
        NotQuiet,
        RequestFailed,
        ServerDidNotStart,
        ServerStopped,
        SnapshotMismatch,
        UnknownKind,
    )
    from apiserver.testing.faults import Faults, InjectedFault
    from apiserver.testing.server import ApiServer
    from apiserver.testing.snapshots import Snapshot
    from apiserver.testing.timeline import Timeline, Version
    from apiserver.testkit.faults import (
        Answer,
        CutConnection,
        Delay,
        Effect,
        EndWatch,
        ExpireToken,
        HoldBookmarks,
        HoldEvents,
        InvalidFault,
        Match,
        NotReady,
        RefuseTls,
        TooManyFaults,
    )
    from apiserver.testkit.request_history import RecordedRequest
    from apiserver.testkit.write_history import StoreWrite

__all__ = [
    "Answer",
    "ApiServer",
    "Change",
    "Clock",
    "ClockNotAdvanced",
    "CutConnection",
    "Delay",
    "Effect",
    "EndWatch",
    "ExpireToken",
    "Faults",
    "HoldBookmarks",
    "HoldEvents",
    "InjectedFault",
    "InvalidFault",
    "ManifestNotLoaded",
    "Match",
    "NotInThisProcess",
    "NotInTime",
    "NotQuiet",
    "NotReady",
    "RecordedRequest",
    "RefuseTls",
    "RequestFailed",
    "ServerDidNotStart",
    "ServerStopped",
    "Snapshot",
    "SnapshotMismatch",
    "StoreWrite",
    "Timeline",
    "TooManyFaults",
    "UnknownKind",
    "User",
    "Version",
]
