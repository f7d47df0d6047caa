"""What kinds of several groups share: `workloads` has checks of those that run pods, `columns` has cells,
`other_versions` declares versions that differ from others in little, `annotation_values` reads what such
versions keep in annotations, `claim_specs` checks the specs of claims to volumes, and `participants` checks
the names of those that have a part in evictions.
"""
