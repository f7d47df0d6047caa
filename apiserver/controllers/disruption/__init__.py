"""The status of PodDisruptionBudgets: how many pods there should be, how many are healthy, how many may go.

    controller        when to look at which budgets, and the writes
    budgets           what the status of a budget has to be, given its pods
    scales            how many pods their owners want
    stale_conditions  pods that were to be disrupted and have not been

What it guarantees: a status is computed from one state of the budget and replaces only that one, so that no
eviction which was counted meanwhile is lost. A budget that cannot be judged (its pods have no owner that says
how many there should be) allows no disruption, and says why.

Why this shape: budgets are looked at by namespace, because the pods of a namespace are walked through for one
budget as for all. While no budget exists, nobody asks of a pod more than whether it has the condition that
may become stale.

Source: kubernetes, pkg/controller/disruption.
"""
