"""What clients build on, checked on recorded histories: of runs in peace, and of runs with faults.

A `recorder` lets writers, readers and watchers, each a client of its own, work against real servers and
writes down what they sent and what came back, as a `history`. The `checkers`, pure functions, say what of
it must not have been. What the state was at each revision they take from the `timeline`, which is made of
the writes alone, and of what anybody saw of those whose answer was lost.

All clients use one namespace, made for the run. Every write makes a value that no other makes, and every
update and deletion names the version it is meant for, so that a history tells which write made what.

`faults` kills, stops, fills and cuts things while a recording runs: `python -m tests.guarantees.faults`.
"""
