"""Settlements as jobs: the queue, leases and heartbeats, and the worker that runs them."""
