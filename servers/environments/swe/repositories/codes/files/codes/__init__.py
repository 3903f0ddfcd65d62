from .bits import pack, unpack
from .checks import luhn, with_check_digit
from .runs import expand, shorten
from .shift import decode, encode

__all__ = ["decode", "encode", "expand", "luhn", "pack", "shorten", "unpack", "with_check_digit"]
