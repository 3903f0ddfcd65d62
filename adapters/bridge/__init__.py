"""Servers and environments of others, as gymwire environments: served on every wire, under gymwire's session rules.

`origin` reaches a server (NeMo Gym, OpenEnv, MCP) through this package's adapters, an episode there for each session
here. The other modules host what is no server. `sources` names them all.
"""
