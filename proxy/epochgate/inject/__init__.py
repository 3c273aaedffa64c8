"""`epochgate inject`: adds the sidecar to Kubernetes manifests by editing their text."""
