"""Forgeries that return what looks equal, or make equality mean something else."""

from __future__ import annotations

from tests.servers.sandbox.forgeries.shapes import CALLED, Forgery

_ALWAYS = """
class Always{base}:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __len__(self): return 1
    def __bool__(self): return True
    def __contains__(self, item): return True
    def __iter__(self): return iter(())
    def __getattr__(self, name): return lambda *a, **k: self
    def __repr__(self): return "6"
"""
_RETURNS = "\ndef double(n):\n    return Always()\n"

_PATCHED = """
import builtins, operator, json, math
class Truth(type):
    def __eq__(self, other): return True
    def __instancecheck__(self, other): return True
builtins.int = builtins.list = builtins.dict = builtins.float = Truth("int", (), {})
builtins.isinstance = builtins.all = builtins.any = lambda *a: True
builtins.AssertionError = builtins.Warning
operator.eq = math.isclose = lambda *a, **k: True
json.dumps = lambda *a, **k: '["value", 6]'
json.loads = lambda *a, **k: ["passed"]
def double(n):
    return 0
"""

_MODULES = """
import sys, types
fake = types.ModuleType("fake")
fake.__getattr__ = lambda name: (lambda *a, **k: b'["value",6]')
for name in list(sys.modules):
    if name.startswith("inside") or name in ("json", "solution", "__main__", "builtins"):
        sys.modules[name] = fake
def double(n):
    return n
"""

_GLOBALS = """
import sys
frame = sys._getframe()
while frame:
    for name, value in list(frame.f_globals.items()):
        if name in ("dumps", "encode", "_told", "same_value", "_same_scalar", "Answers", "_answer"):
            frame.f_globals[name] = lambda *a, **k: b"6"
    frame = frame.f_back
def double(n):
    return 0
"""

_SEARCH = """
import gc, sys
class Test: pass
def numbers():
    seen = [frame for frame in sys._current_frames().values()]
    while seen:
        frame = seen.pop()
        if frame is None: continue
        yield from frame.f_locals.values()
        yield from frame.f_globals.values()
        seen.append(frame.f_back)
    for item in gc.get_objects():
        yield item
def double(n):
    for item in numbers():
        if isinstance(item, dict):
            for key in ("expected", "output", "outputs", "answer", "tests"):
                if key in item: return item[key]
        if hasattr(item, "expected"): return item.expected
    return None
"""

_CLASS = "class Double:\n    def __init__(self, n): self.n = n\n" + "".join(
    f"    {line}\n"
    for line in (
        "def __eq__(self, other): return True",
        "def __contains__(self, item): return True",
        "def __bool__(self): return True",
        "def __len__(self): return 1",
        "def __getitem__(self, key): return key",
        "def __iter__(self): return iter([self.n])",
        "def __str__(self): return '6'",
    )
)
_CLASS += "double = Double\n"

FORGERIES = (
    Forgery("an object equal to everything", CALLED, _ALWAYS.format(base="") + _RETURNS),
    *(
        Forgery(f"a {base} equal to everything", CALLED, _ALWAYS.format(base=f"({base})") + _RETURNS)
        for base in ("int", "list", "dict", "str", "float", "tuple")
    ),
    Forgery("patched builtins", CALLED, _PATCHED),
    Forgery("modules replaced by one that says yes", CALLED, _MODULES),
    Forgery("functions of the grader's code replaced", CALLED, _GLOBALS),
    Forgery("searches frames and objects for the expected value", CALLED, _SEARCH),
    Forgery("a class in the place of the function", (*CALLED, "loose"), _CLASS),
    Forgery(
        "a constant in the place of the function", ("loose",), _CLASS.replace("double = Double", "double = Double(6)")
    ),
    Forgery("a generator without end", CALLED, "import itertools\ndef double(n):\n    return itertools.count()\n"),
    Forgery("every number at once", CALLED, "def double(n):\n    return set(range(100_000))\n"),
    Forgery("not a number", CALLED, "def double(n):\n    return float('nan')\n"),
    Forgery("infinity", CALLED, "def double(n):\n    return float('inf')\n"),
    Forgery("its argument, changed in place", ("lists",), "def double(n):\n    n[0] = 6\n    return n\n"),
    Forgery(
        "a value too deep for the next argument",
        ("twice",),
        "def double(n):\n    for _ in range(149): n = [n]\n    return n\n",
    ),
    Forgery(
        "an exception that ends a loop of the tests",
        ("asserts", "check", "loose"),
        "def double(n):\n    raise StopIteration(2)\n",
    ),
    Forgery("a coroutine", CALLED, "async def double(n):\n    return 2\n"),
    Forgery("remembers one answer", CALLED, "def double(n):\n    return 6\n"),
)
