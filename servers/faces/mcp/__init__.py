"""The MCP wire."""

from .face import SESSION_HEADER, door, face, serve_stdio

__all__ = ["SESSION_HEADER", "door", "face", "serve_stdio"]
