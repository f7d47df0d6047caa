"""Certificate requests: who is approved by nobody, what is signed, and when requests are deleted.

issuing     the certificate that answers a request
signing     signs what is approved, or says why it does not
approving   approves what kubelets ask for themselves, if they may
cleaning    deletes requests that are of no use any more

What each of Kubernetes' own signers signs is in `catalogue.certificates.signers`.

Sources: kubernetes, pkg/controller/certificates and pkg/apis/certificates/helpers.go.
"""
