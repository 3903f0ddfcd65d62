"""Measures gymwire beside its peers and bare echoes in one run: `python -m tests.bench` (`make bench`).

Server CPU is user plus system time of the server's process, read from /proc (Linux only); the load comes from
another process. Peers run in the virtual environments of tests/peers; one that cannot be had is named and left out.
"""
