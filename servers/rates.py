"""How often one may ask: a token bucket for each owner of a token, or for each address where no token is known."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass

from .answers import Code, Refused

#: Askers remembered; past it the one that asked longest ago starts afresh.
REMEMBERED = 16_384


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Rates:
    """`per_second` requests on average, `per_second` at once (at least 1). 0: as many as they like."""

    def __init__(self, per_second: float = 0.0) -> None:
        self.per_second, self.burst = per_second, max(per_second, 1.0)
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __bool__(self) -> bool:
        return self.per_second > 0

    def take(self, who: str) -> None:
        """Count a request. Raises `Refused` with the seconds after which to come back."""
        wait_s = self.wait_s(who)
        if wait_s > 0:
            text = f"More than {self.per_second:g} requests a second; come back later."
            raise Refused(Code.RATE_LIMITED, text, retry_after_s=math.ceil(wait_s))

    def wait_s(self, who: str) -> float:
        """Count a request; answers how many seconds too early it comes (then it is not counted)."""
        now = time.monotonic()
        bucket = self._buckets.get(who)
        if bucket is None:
            bucket = self._buckets[who] = _Bucket(self.burst, now)
            if len(self._buckets) > REMEMBERED:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(who)
        bucket.left = min(self.burst, bucket.left + (now - bucket.at) * self.per_second)
        bucket.at = now
        if bucket.left < 1.0:
            return (1.0 - bucket.left) / self.per_second
        bucket.left -= 1.0
        return 0.0
