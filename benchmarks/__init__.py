"""What the server does per second, beside what the same machine can do bare, in the same run.

A figure alone says little: machines differ. So each work is also done by the least that could do it on the
same stack (`bare`): an aiohttp low-level server over TLS that sends the same bytes, the same with a JSON
parse and a put into the store, the store's client alone. The ratio to that is what the server's own work
leaves, and what the targets in `works` speak of.

    python -m benchmarks                  everything, about ten minutes
    python -m benchmarks get list         some works
    python -m benchmarks --seconds 1      shorter, for a first look
    python -m benchmarks --check          exit 1 if a target is missed

`load` makes the requests, `processes` runs servers and reads their CPU time and memory, `works` has the
works one after the other, `forms` those of lists in other forms and of OpenAPI, `scale` those of many
clients, objects and types, `report` prints. `bodies` has what is created. `fan_out` has one writer and many
watchers, which `followers`, in a process of its own, reads; `ping` tells how long others have to wait.
"""
