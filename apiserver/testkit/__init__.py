"""Everything that exists only for tests of clients: simulation, faults, histories, copies of state, envtest.

    simulation         nodes that run no pods, a scheduler and controllers of workloads
    simulated_cluster  builds them, if the flags ask for them
    faults             responses, delays and losses that tests inject
    request_history    keeps the last requests
    write_history      keeps the last writes, with their users
    object_history     the versions of an object that the store still has
    state_copies       copies of a server's state, which other servers can begin with
    flags              turns the flags for tests into hooks of a server
    envtest            the programs that envtest starts

What it guarantees: a production server imports none of it. Tests use it through `apiserver.testing`, whose
names are public; nothing here is.

Why this shape: it is added to a server only through `app.hooks.Hooks`, so that readers of the request path
meet no tests. Only `apiserver.__main__` imports it beside `apiserver.testing`, if a flag or a subcommand
needs it.

Left out: parts that production has, too, as the clock of a server, and stores in memory.
"""
