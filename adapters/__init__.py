"""Clients of the three wires behind one `Session` type."""

from .connect import Connection, connect
from .drive import Played, drive
from .foreign import McpOptions, OpenEnvOptions
from .session import Session, SessionFailed, Task, WrongRequest

__all__ = [
    "Connection",
    "McpOptions",
    "OpenEnvOptions",
    "Played",
    "Session",
    "SessionFailed",
    "Task",
    "WrongRequest",
    "connect",
    "drive",
]
