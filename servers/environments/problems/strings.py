"""Texts: runs, brackets, ciphers, anagrams."""

from __future__ import annotations

from .catalog import problem, word


@problem(
    draw=lambda rng, n: (word(rng, n, "aab"),),
    edges=[("aaabb",), ("a",), ("abab",), ("aabbb",), ("bbbbbbbbbbbb",)],
    wrong=[("best = 0", "best = 2"), ("run = 1", "run = 0"), ("max(best, run)", "run"), ("== before", "!= before")],
)
def longest_run(text: str) -> int:
    """Answer the length of the longest run of one and the same character in the text, which has only lower case
    letters and at least one of them."""
    best = 0
    run, before = 0, ""
    for letter in text:
        if letter == before:
            run += 1
        else:
            run = 1
        before = letter
        best = max(best, run)
    return best


@problem(
    draw=lambda rng, n: (word(rng, n, "()[]"),) if rng.randrange(2) else ("([" * (n // 4 + 1) + "])" * (n // 4 + 1),),
    edges=[("([])",), ("([)]",), ("((",), ("))",), ("[]()",), ("(]",), ("][",)],
    wrong=[
        ("return not stack", "return True"),
        ("if not stack or stack.pop() != opening[mark]", "if not stack or not stack.pop()"),
        ("if not stack or stack.pop() != opening[mark]:", "if stack and stack.pop() != opening[mark]:"),
    ],
)
def balanced(text: str) -> bool:
    """The text has only the characters ( ) [ ]. Say whether the brackets are balanced: each one is closed by its own
    kind, in the right order."""
    opening = {")": "(", "]": "["}
    stack: list[str] = []
    for mark in text:
        if mark in "([":
            stack.append(mark)
            continue
        if not stack or stack.pop() != opening[mark]:
            return False
    return not stack


@problem(
    draw=lambda rng, n: (word(rng, n, "abxyzABXYZ ,"), rng.randint(1, 25)),
    edges=[("abc xyz", 3), ("Zebra, zoo", 1), ("Hello, World!", 13), ("AZaz", 25), ("a", 26)],
    wrong=[
        ("ord(first) + (ord(letter) - ord(first) + shift) % 26", "ord(letter) + shift"),
        ('"A" if letter.isupper() else "a"', '"a"'),
        ("+ shift", "- shift"),
    ],
)
def caesar(text: str, shift: int) -> str:
    """Shift every letter of the text forward in the alphabet by the given number of places, from z on to a again.
    Upper case stays upper case; what is no letter stays as it is."""
    out = []
    for letter in text:
        if letter.isalpha():
            first = "A" if letter.isupper() else "a"
            letter = chr(ord(first) + (ord(letter) - ord(first) + shift) % 26)
        out.append(letter)
    return "".join(out)


@problem(
    draw=lambda rng, n: (word(rng, n, "aaaabc"),),
    edges=[("aaabcc",), ("z",), ("aaaaaaaaaaaab",), ("abc",), ("aab",)],
    wrong=[
        ("str(count) + letter", "letter + str(count)"),
        ("    out.append(str(count) + letter)\n    return", "    return"),
        ("count = 1\n    for", "count = 0\n    for"),
        ("str(count) +", "str(count % 10) +"),
    ],
)
def run_lengths(text: str) -> str:
    """Write the text, which has at least one letter, as its runs: for each run of equal letters its length and then
    the letter, so that aaabcc becomes 3a1b2c."""
    out: list[str] = []
    letter = text[0]
    count = 1
    for other in text[1:]:
        if other == letter:
            count += 1
        else:
            out.append(str(count) + letter)
            letter, count = other, 1
    out.append(str(count) + letter)
    return "".join(out)


@problem(
    draw=lambda rng, n: ([word(rng, rng.randint(1, 4), "abc") for _ in range(n)],),
    edges=[(["ab", "ba", "abc", "cab", "c"],), (["a"],), (["aab", "abb"],), (["x", "x"],), (["ab", "ba", "ab"],)],
    wrong=[("sorted(word)", "sorted(set(word))"), ("len(groups)", "len(words)"), ("sorted(word)", "word[::-1]")],
)
def anagram_groups(words: list[str]) -> int:
    """Two words are of one group if one has the letters of the other in another order (or in the same). Answer how
    many groups the words make."""
    groups = {"".join(sorted(word)) for word in words}
    return len(groups)


@problem(
    draw=lambda rng, n: (word(rng, n, "ab"),),
    edges=[("abcba",), ("ab",), ("a",), ("abba",), ("abca",), ("aabbb",)],
    wrong=[("odd <= 1", "odd == 0"), ("odd <= 1", "odd <= 2"), ("% 2", "> 1")],
)
def can_be_palindrome(text: str) -> bool:
    """Say whether the letters of the text can be put in an order that reads the same forward and backward."""
    odd = sum(text.count(letter) % 2 for letter in set(text))
    return odd <= 1


@problem(
    draw=lambda rng, n: (word(rng, n, "ab"),),
    edges=[("babad",), ("cbbd",), ("a",), ("abcd",), ("aaaa",), ("abacabad",)],
    wrong=[
        ("for width in (0, 1):", "for width in (0,):"),
        ("for width in (0, 1):", "for width in (1,):"),
        ("best = max(best, right - left - 1)", "best = max(best, right - left)"),
    ],
    large=600,
)
def longest_palindrome(text: str) -> int:
    """Answer the length of the longest piece of neighbouring characters of the text that reads the same forward and
    backward. The text has at least one character."""
    best = 0
    for middle in range(len(text)):
        for width in (0, 1):
            left, right = middle, middle + width
            while left >= 0 and right < len(text) and text[left] == text[right]:
                left, right = left - 1, right + 1
            best = max(best, right - left - 1)
    return best


@problem(
    draw=lambda rng, n: (word(rng, n, "abcdefgh"),),
    edges=[("abcabcbb",), ("bbbb",), ("abba",), ("a",), ("dvdf",), ("tmmzuxt",)],
    wrong=[
        ("max(start, last[letter] + 1)", "last[letter] + 1"),
        ("at - start + 1", "at - start"),
        ("last[letter] + 1)", "last[letter])"),
    ],
)
def longest_distinct(text: str) -> int:
    """Answer the length of the longest piece of neighbouring characters of the text in which no character stands
    twice."""
    last: dict[str, int] = {}
    start = best = 0
    for at, letter in enumerate(text):
        if letter in last:
            start = max(start, last[letter] + 1)
        last[letter] = at
        best = max(best, at - start + 1)
    return best


@problem(
    draw=lambda rng, n: (word(rng, n, "ab"), word(rng, 1 + n // 2, "ab")),
    edges=[("abcde", "ace"), ("abc", "cba"), ("a", "b"), ("a", "aa"), ("abab", "baba")],
    wrong=[
        ("above[at] + 1 if", "row[-1] + 1 if"),
        ("max(row[-1], above[at + 1])", "row[-1]"),
        ("max(row[-1], above[at + 1])", "0"),
    ],
    large=500,
)
def common_subsequence(first: str, second: str) -> int:
    """Answer the length of the longest text that can be had from both texts by leaving characters out (the order
    stays; they need not be neighbours)."""
    above = [0] * (len(second) + 1)
    for letter in first:
        row = [0]
        for at, other in enumerate(second):
            row.append(above[at] + 1 if letter == other else max(row[-1], above[at + 1]))
        above = row
    return above[-1]


@problem(
    draw=lambda rng, n: (word(rng, n, "abc"), word(rng, n, "abc")),
    edges=[("kitten", "sitting"), ("abc", "abc"), ("a", "bcd"), ("abcd", "d"), ("ab", "ba")],
    wrong=[
        ("above = list(range(len(second) + 1))", "above = [0] * (len(second) + 1)"),
        ("above[at] + (letter != other)", "above[at] + 1"),
        ("row = [number]", "row = [0]"),
    ],
    large=350,
)
def edit_distance(first: str, second: str) -> int:
    """Answer the smallest number of steps from the first text to the second, where one step inserts, removes or
    replaces one character."""
    above = list(range(len(second) + 1))
    for number, letter in enumerate(first, start=1):
        row = [number]
        for at, other in enumerate(second):
            row.append(min(row[-1] + 1, above[at + 1] + 1, above[at] + (letter != other)))
        above = row
    return above[-1]


@problem(
    draw=lambda rng, n: (" ".join(word(rng, rng.randint(1, 3), "ab") for _ in range(max(1, n))),),
    edges=[("the cat the dog the end",), ("b a",), ("a",), ("b b a a",), ("one two two one two",)],
    wrong=[
        ("(-counts[name], name)", "(-counts[name], -len(name))"),
        ("-counts[name]", "counts[name]"),
        ("counts.get(name, 0) + 1", "1"),
    ],
)
def commonest_word(text: str) -> str:
    """The text is words with one space between them. Answer the word that stands there most often; of several such
    the one that comes first in the alphabet."""
    counts: dict[str, int] = {}
    for name in text.split(" "):
        counts[name] = counts.get(name, 0) + 1
    return min(counts, key=lambda name: (-counts[name], name))


@problem(
    draw=lambda rng, n: (word(rng, n, "aab") + word(rng, 2, "ab"), word(rng, 2, "ab")),
    edges=[("abababa", "aba"), ("aaaa", "aa"), ("abc", "d"), ("ab", "abc"), ("xyx", "x")],
    wrong=[
        ("at + 1)", "at + len(piece))"),
        ("count += 1", "count = 1"),
        ("text.find(piece)", "text.find(piece, 1)"),
    ],
)
def occurrences(text: str, piece: str) -> int:
    """Answer at how many places of the text the piece begins. Places may overlap: aba stands three times in abababa.
    The piece has at least one character."""
    count, at = 0, text.find(piece)
    while at >= 0:
        count += 1
        at = text.find(piece, at + 1)
    return count
