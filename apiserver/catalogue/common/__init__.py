"""What kinds of several groups share: `workloads` has checks of those that run pods, `columns` has cells."""
