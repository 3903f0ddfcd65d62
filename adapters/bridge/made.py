"""What `gymwire bridge` has made, where `gymwire serve` finds it: as `gymwire.adapters.bridge.made:Environment`."""

from __future__ import annotations

from ...servers.environment import Environment as _Base

Environment: type[_Base] = _Base
