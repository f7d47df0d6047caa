"""A real API server inside of tests: `with ApiServer() as server:`.

What it guarantees:

- *It is the server that users run*, over HTTPS, with all its admission and controllers. Only the store is
  in memory, unless a directory is given for it: the same code, without files.
- *The process stays as it was.* A server in a thread sets no signal handler, no limit, no option of the
  allocator, the interpreter or logging. Its loggers are below `apiserver`, and propagate. The garbage
  collector rests while a fork begins, or a server is reset, which takes milliseconds. One filter of warnings
  stays: of those that `cryptography` gives of certificates that others have made (`golang.x509_parsing`).
- *Any number of servers*, one after another or together, in one process or several: each has a free port and
  a directory of its own.
- *A fork is a server of its own*, with the same objects and revisions that go on, and shares their bytes. A
  server that is reset goes on at its address as one that was restored from a backup: its connections end, and
  whoever asks for a resourceVersion of before gets 410 Gone.
- *A server has a clock of its own*, which can be put forward: whatever a client can see follows
  (`apiserver.registry.clock`).
- *It ends at once, and whole*: `stop` leaves no thread, task, socket or file, whatever was under way.

`server` has `ApiServer`. What runs it is in `runners`: `ServerThread` in this process, and `ServerChild` in
one that `child` is the program of, which also ends when its parent has been killed. `etcd_probe` tells at
once where no etcd is, or something else. `credentials` makes kubeconfigs of users and service accounts, and
`snapshots` has what servers begin with again. `clock` puts a server's clock forward, and `server_time` has
what such a server goes by. `manifests` loads files, `faults` has what goes wrong on purpose (what can:
`apiserver.testkit.faults`), `resources` finds what a kind is in URLs, and `waiting` watches for what should
happen, or not. `timeline` tells who has written an object, `differences` what has changed in it, and
`failure_report` what to know of a server when a test has failed. `errors` has what is raised.
`apiserver.pytest_plugin` has fixtures of all that. `containers`, for those who have testcontainers, has a
server in a container.

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
