"""What kinds of several groups share: `workloads` has checks of those that run pods, `columns` has cells, and
`other_versions` declares versions that differ from others in little.
"""
