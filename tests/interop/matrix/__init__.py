"""Every client with every server, directly and through the proxy: `python -m tests.interop.matrix`."""
