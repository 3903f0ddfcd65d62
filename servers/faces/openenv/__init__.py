"""The OpenEnv wire."""

from .socket import face

__all__ = ["face"]
