"""Certificate requests: approves those of kubelets, signs approved ones, and deletes old ones.

issuing     the certificate that answers a request
signing     signs approved requests, or reports why it cannot
approving   approves client certificates of kubelets with permission
cleaning    deletes requests that are no longer needed

`catalogue.certificates.signers` defines what each of Kubernetes' own signers signs.

Sources: kubernetes, pkg/controller/certificates and pkg/apis/certificates/helpers.go.
"""
