"""The doctor: whether a server, ours or not, keeps the promises of its protocol; `gymwire check`.

`promises` says what each promise is, `checks_*` how it is tested, `gym`, `openenv` and `mcp` send raw requests on the
wires, past our own clients, which would repair or hide a fault. A probe that breaks by itself is an error and counts
as failing; what cannot be tested is not applicable, with the reason. Every session that was begun is closed.
"""
