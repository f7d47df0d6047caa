"""Keeps the status of PodDisruptionBudgets: how many pods there should be, are healthy, and may be evicted.

    controller        finds the budgets to update, and writes them
    budgets           computes the status of a budget from its pods
    scales            the desired number of pods of owners
    stale_conditions  removes stale conditions of pods

What it guarantees: a status is computed from one state of the budget and replaces only that state, so that no
eviction counted meanwhile is lost. If it cannot be computed (the pods have no owner with a desired number),
the budget allows no disruption, and reports why.

Why this shape: budgets are processed by namespace, because one pass over the pods of a namespace serves all
its budgets. While no budget exists, pods are only checked for the condition that may become stale.

Source: kubernetes, pkg/controller/disruption.
"""
