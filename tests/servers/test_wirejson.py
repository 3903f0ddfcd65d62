"""JSON across the wires: exact both ways, and long arrays of numbers carried through undecoded."""

from __future__ import annotations

import json

import pytest
from gymwire.servers import wirejson

TEXTS = [
    b'{"a":12345678901234567890123,"b":[1.5,-0.0,1e22]}',
    b'{"logprobs":[-Infinity,NaN,-0.5]}',
    '{"text":"Zürich \\u2028 😀"}'.encode(),
]
SEALED = [
    b'{"generation_token_ids":[1,2,3],"x":[{"prompt_token_ids" :[4],"generation_log_probs":[-Infinity,null,-1e-3]}]}',
    b'{"prompt_token_ids":[],"generation_token_ids":["no number"],"generation_log_probs":[[1],[2]]}',
    rb'{"content":"he said \"prompt_token_ids\":[1,2] and \"sealed 0123456789abcdef 0\"","prompt_token_ids":[7]}',
    b'{"content":"sealed 0123456789abcdef 0","prompt_token_ids":[7]}',
    b'{"prompt_token_ids":null,"nothing":"else"}',
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_decoded_comes_back_the_same(text: bytes) -> None:
    assert repr(json.loads(wirejson.dumps(wirejson.loads(text), text))) == repr(json.loads(text))


@pytest.mark.parametrize("text", SEALED)
def test_sealed_arrays_come_back_where_they_were(text: bytes) -> None:
    sealed = wirejson.Sealed()
    closed = sealed.close(text)
    assert repr(json.loads(sealed.open(wirejson.dumps(wirejson.loads(closed), closed)))) == repr(json.loads(text))


def test_only_arrays_of_numbers_are_sealed() -> None:
    closed = wirejson.loads(wirejson.Sealed().close(SEALED[0]))
    assert isinstance(closed["generation_token_ids"], str) and isinstance(closed["x"][0]["prompt_token_ids"], str)
    assert wirejson.loads(wirejson.Sealed().close(SEALED[1]))["generation_token_ids"] == ["no number"]


@pytest.mark.parametrize("text", [b'{"prompt_token_ids":[1,2', b'{"prompt_token_ids":[', b'"prompt_token_ids":[1]]'])
def test_broken_json_stays_broken(text: bytes) -> None:
    with pytest.raises(ValueError):
        wirejson.loads(wirejson.Sealed().close(text))
