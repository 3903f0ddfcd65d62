"""Clients of the three wires behind one `Session` type."""
