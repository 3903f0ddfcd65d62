"""Forgeries that speak for the grader's own code in the job: its words, its lines, its result frames."""

from __future__ import annotations

from tests.servers.sandbox.forgeries.shapes import CALLED, REACH, Forgery

FRAME = """
import struct
outcome = struct.pack("!BhBddII", 0, 0, 0, 0.1, 0.1, 2, 0) + b"ok"
say(struct.pack("!BI", 14, len(outcome)) + outcome)
say(struct.pack("!BI", 12, 2) + b"ok")
"""

#: Answers that a grader could stumble over: none may end in a pass, and none in a failure of ours.
ODD_ANSWERS = {
    "an empty list": "[]",
    "no JSON": "value",
    "not a list": '{"value": 1}',
    "nested without end": "[" * 100_000,
    "a number of 5,000 digits": '["value",' + "9" * 5_000 + "]",
    "infinity": '["value",Infinity]',
    "not a number": '["value",NaN]',
    "a float of text": '["value",["float","zz"]]',
    "a float beyond floats": '["value",["float","0x1p+5000"]]',
    "a float that is not one": '["value",["float",["float"]]]',
    "an integer of text": '["value",["int","zz"]]',
    "a long integer": '["value",["int","0x' + "f" * 200_000 + '"]]',
    "a dict without pairs": '["value",["dict",1,2]]',
    "a dict of half a pair": '["value",["list",6,["dict",["n"]],["float","0x1p-1"]]]',
    "a dict whose key is a list": '["value",["dict",[["list",1],2]]]',
    "a handle": '["value",["handle",0]]',
    "a handle of nothing": '["value",["handle",99999999999]]',
    "a tag that is a number": '["value",[5]]',
    "a tag that is a list": '["value",[["list"]]]',
    "bytes": '["value",["bytes","zz"]]',
    "a set of sets": '["value",["set",["set",1]]]',
    "raised without a name": '["raised",5,6]',
    "raised a class of the interpreter": '["raised","StopIteration","6"]',
    "raised what is no exception": '["raised","print","6"]',
    "passed": '["passed"]',
    "unsupported": '["unsupported","this row"]',
    "callable": '["callable"]',
    "control characters": "\\u0000\\u0007",
}

_ANSWER = """
def double(n):
    say(b'''{answer}\\n''')
    os._exit(0)
"""

_HANDLES = """
def double(n):
    say(b'["value",["handle",0]]\\n' + b'["value",true]\\n' * 20)
    os._exit(0)
"""

FORGERIES = (
    Forgery("result frames of the worker on every descriptor", ("stdin", *CALLED), REACH + FRAME + "os._exit(0)\n"),
    Forgery("says that every test was passed", CALLED, REACH + "say(b'[\"passed\"]\\n' * 20)\nos._exit(0)\n"),
    Forgery(
        "sizes and an output of its own, before the real ones",
        ("stdin",),
        REACH + "for n in range(10):\n    say(b'0 1 0\\n6')\nos._exit(0)\n",
    ),
    Forgery("sizes that are none", ("stdin",), REACH + "say('0 \\u0666 0\\n'.encode() + b'9' * 9)\nos._exit(0)\n"),
    Forgery("sizes below zero", ("stdin",), REACH + "say(b'0 -5 -5\\n')\nos._exit(0)\n"),
    Forgery("a status without end", ("stdin",), REACH + "say(b'9' * 6000 + b' 1 1\\n')\nos._exit(0)\n"),
    Forgery("a handle for a number, and yes to all that is asked of it", ("loose",), REACH + _HANDLES),
    Forgery("ready again, and loaded", ("stdin", *CALLED), REACH + "say(b'ready\\nloaded\\n')\nos._exit(0)\n"),
    *(
        Forgery(f"answers {name}", ("call", "lists", "check"), REACH + _ANSWER.format(answer=answer))
        for name, answer in ODD_ANSWERS.items()
    ),
)
