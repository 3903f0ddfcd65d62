from texts import columns, distance, indent, similar, slug, unique, wrap

POEM = "The fog comes on little cat feet and sits looking over harbour and city"


def probe_wrap():
    return [wrap(POEM, width) for width in (1, 7, 8, 20, 200)] + [wrap("", 5), wrap("  a \n b  ", 3), wrap("ab cd", 5)]


def probe_wrap_to_nothing():
    return wrap("a", 0)


def probe_indent():
    return [
        indent("a\n\nb", "> "),
        indent("a\nb\nc", "  ", "- "),
        indent("a\nb", "  ", ""),
        indent("\na", "  ", "- "),
        indent("", "> "),
    ]


def probe_columns():
    words = "ash beech elm fir hazel oak".split()
    return [columns(words, width) for width in (1, 5, 12, 13, 19, 20, 80)] + [columns([], 9), columns(["long"], 2)]


def probe_distance():
    pairs = [("", ""), ("", "abc"), ("abc", ""), ("abc", "abc"), ("abc", "acb"), ("flaw", "lawn"), ("sunday", "saturday")]
    return [distance(*pair) for pair in pairs]


def probe_similar():
    words = ["Lookup", "submit", "look", "locks", "hook", "verify"]
    return [similar("look", words), similar("LOOK", words, 1), similar("look", words, 0), similar("xyzxyz", words)]


def probe_slug():
    texts = ["Hello, World!", "Ärger über Öl", "a--b__c", "", "???", "x" * 50, "one two three four five six seven eight nine"]
    return [slug(text) for text in texts] + [slug("one two three", 7), slug("one two three", 8), slug("one two", 2)]


def probe_unique():
    return [unique("a", set()), unique("a", {"a"}), unique("a", {"a", "a-2", "a-3", "a-5"}), unique("a", {"a-2"})]
