"""The guarantees that clients rely on, checked on recorded histories of runs with and without faults.

A `recorder` runs writers, readers and watchers, each a client of its own, against real servers, and records
what they sent and what came back as a `history`. The `checkers`, pure functions, return what in it breaks a
guarantee. They know the state at each revision from the `timeline`, which is made of the writes, and of what
any client observed of the writes whose answer was lost.

All clients use one namespace, created for the run. Every write has a value that no other has, and every
update and deletion names the version it replaces, so that a history shows which write made what.

`faults` kills processes, fills disks and cuts connections while a recording runs:
`python -m tests.guarantees.faults`. `soak` looks for what grows when clients, definitions and namespaces
come and go for a long time: `python -m tests.guarantees.soak`.
"""
