"""What exists only for tests of clients: simulation, faults, histories, copies of state, envtest.

    simulation         nodes that run no pods, a scheduler and controllers of workloads
    simulated_cluster  builds them, if the flags ask for them
    faults             answers, delays and losses that tests inject
    request_history    keeps the last requests
    write_history      keeps the last writes, and whose they were
    object_history     the versions of an object that the store still has
    state_copies       what one server stores, for others to begin with
    flags              what the flags for tests ask for, as hooks of a server
    envtest            the programs that envtest starts

What it guarantees: a server that nobody tests imports none of it. Tests use it through `apiserver.testing`,
whose names are public; nothing here is.

Why this shape: it is added to a server through `app.hooks.Hooks`, and through nothing else, so that whoever
reads how a request is served meets no tests. Only `apiserver.__main__` imports it beside `apiserver.testing`,
where a flag or a subcommand asks for it.

Left out: what production has, too, as the clock that a server goes by, and stores in memory.
"""
