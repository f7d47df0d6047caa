"""`apiserver doctor`: finds the problems of a configuration, its surroundings, and a running server.

Each check has two parts. One gathers facts, with bounds on its calls, and turns failures into facts. The
other is a pure function from facts, and the time, to findings: what is wrong, how serious it is, and one line
of advice. All checks run at the same time (`checks`); one that fails or hangs is itself a finding.

command           the command line, and which checks run
checks            runs checks
deadline          a time that several calls share
report            findings, their severities, and how they are printed
configuration     whether the server could start with its flags and files
configured_files  the files that a configuration names, and the generated ones
secret_files      who can read keys, tokens and passwords
certificates      how long certificates are valid, and whether they fit their keys
clocks            the clock against those of other machines, and times in the store
limits            open files and memory
ports             the port to listen on
embedded_store    the embedded store, and its disk
etcd_probe        asks the members of etcd
etcd_http         asks them over HTTP, for their quota, clock and certificate
etcd_members      judges the answers
shared_keys       the keys that replicas share
running_server    health checks, metrics, and the watch cache
extensions        webhooks and extension API servers
deprecated_apis   deprecated APIs in use
units             amounts as people read them

No object is changed. To measure writes, one key per endpoint of etcd is written up to three times, with a
lease that is then revoked; the key is part of no resource. The port is bound for a moment.
"""
