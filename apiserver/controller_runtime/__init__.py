"""The common parts of all controllers: informers, work queues, and the loop that reconciles.

    informer       delivers the objects of a resource from the watch cache, and their changes
    work_queue     the keys to look at: each once, rate-limited, with back-off
    controller     the loop: take a key, reconcile it, retry it if that failed
    undone_writes  slows down writes that another client keeps undoing

What it guarantees: a key is reconciled by one worker at a time, and once more if it changes meanwhile. An
object that cannot be reconciled stops neither the others nor the server. Queues have a bound (`KEYS_MAX`):
an informer waits for room.

Why this shape: it is client-go's and controller-runtime's, because authors of controllers know it. Informers
keep no copy of the objects: the watch cache has them already.

It knows no kinds, and is below all packages that have controllers: `controllers`, `custom_resources`,
`endpoints.aggregation` and the simulation of nodes.
"""
