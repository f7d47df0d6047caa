"""The attack kit: what well-behaved clients notice while others do their worst.

`make attack` starts a server for every attack of `tests.hostile.attacks`, attacks it for some seconds, and
prints a row (ARGS="--only lists --scale 2" attacks twice as hard, ARGS="--list" says what the attacks are).
A kube-apiserver whose program is given (ARGS="--peer /path/to/kube-apiserver") is attacked likewise, with an
etcd beside it.

Every part is a process of its own, so that none of them delays what another measures:

- the server, with its defaults (`tests.hostile.targets`);
- the victim, who reads, writes and renews a lease ten times a second (`tests.hostile.victim`). Delays count
  from when a request was due;
- the probe, which asks for /livez every few milliseconds, as an orchestrator does (`tests.hostile.probe`);
- the attackers, who have to be content with the processor time that nobody else wants
  (`tests.hostile.attacker`): on one machine they would otherwise take it from the server, which tells
  something about the scheduler only.

The kit itself starts them, samples the server's memory, and has the server tell its longest turn of the event
loop, in processor time of the loop's thread: nothing else on the machine changes that
(`tests.hostile.trial`). Delays depend on what else the machine does; refusals, turns and memory do not, and
they are what `test_attacks.py` checks.

An attack is a coroutine function with a decorator (`tests.hostile.attack`); its docstring says what it does,
at scale 1. It goes on until it is cancelled. Users, tokens and permissions are in `tests.hostile.site`.
Clients have addresses of their own in 127.0.0.0/8, which needs Linux.
"""
