"""What kinds of several groups share: `workloads` has checks of those that run pods, `columns` has cells,
`other_versions` declares versions that differ from others in little, `annotation_values` reads what such
versions keep in annotations, `claim_specs` checks the specs of claims to volumes, `signer_names` checks
names of signers and what pods ask them for, `participants` checks the names of those that have a part in
evictions, and `node_labels` warns of deprecated labels of nodes.
"""
