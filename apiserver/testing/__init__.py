"""A real API server inside tests: `with ApiServer() as server:`.

The server has these guarantees:

- *It is the server that users run*: the server uses HTTPS, and has all admission plugins and controllers. By
  default, the store is in memory. The in-memory store has the same code as the embedded store, but no files.
- *It does not change the process.* A server in a thread sets no signal handlers or limits, and changes no
  options of the allocator, the interpreter or logging. All loggers are below `apiserver` and propagate. The
  garbage collector pauses for some milliseconds while a fork starts or a server is reset. A warning filter
  remains: it hides warnings of `cryptography` about third-party certificates (`golang.x509_parsing`).
- *Any number of servers* can run in one process or in several processes. Each server has its own free port
  and directory.
- *A fork is a separate server*, which starts with the same objects and revisions as the original server, and
  shares the memory of these objects. After a reset, a server keeps its address, and behaves as if the server
  were restored from a backup: connections end, and requests for an earlier resourceVersion get 410 Gone.
- *Each server has its own clock*, which tests can advance. Everything that a client can see follows this
  clock (`apiserver.registry.clock`).
- *A server stops immediately and completely*: `stop()` leaves no thread, task, socket or file.

`server` contains `ApiServer`. `runners` runs the server: `ServerThread` in this process, or `ServerChild` in
a child process. `child` is the program of the child process, which also ends when its parent is killed.
`etcd_probe` quickly detects a missing etcd. `credentials` describes the users of static tokens. `snapshots`
contains the state with which a server can start. `clock` advances a server's clock, and `server_time`
implements this clock. `debug_endpoints` serves the clock and forks over HTTP. `manifests` loads files, and
`faults` injects faults (`apiserver.testkit.faults` has the effects). `resources` finds the resource of a
kind, and `waiting` waits for conditions with watches. `past` reads the objects of an earlier moment.
`timeline` lists the writes of an object, and `differences` finds the changed fields. `failure_report`
describes a server when a test fails. `errors` contains the exceptions. `apiserver.pytest_plugin` provides the
fixtures. `containers` runs a server in a container, for users of testcontainers.

The pages in docs/testing are for users. The names that this module exports are public, and follow semantic
versioning. The module needs neither pytest nor a client library.
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
    from apiserver.testing.past import PastServer
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
    "PastServer",
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
