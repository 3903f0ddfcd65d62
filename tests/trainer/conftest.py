"""The trainer's tests reach for no hub, and share the machine's cores as a run does."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # two files run at once; accelerate warns where it is unset
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
