from markup import escape, inline, to_html


def probe_escape():
    return [escape("a < b & c > d"), escape("&lt;"), escape("")]


def probe_inline():
    texts = ["*a*", "a *b c* d", "* a *", "2*3*4", "_x_", "snake_case_name", "_a b_!", "**", "*a* and *b*", "*_a_*"]
    return [inline(text) for text in texts]


def probe_code():
    return [inline("`a*b*c`"), inline("`<b>` and *c*"), inline("*x* `_y_` _z_"), inline("one ` alone"), inline("``")]


def probe_headings():
    return [to_html("# One"), to_html("###### Six"), to_html("####### Seven"), to_html("#none"), to_html("text\n## Two")]


def probe_lists():
    return [
        to_html("- a\n- b\n\n- c"),
        to_html("- a\n  more\n- b"),
        to_html("words\n- a\nwords"),
        to_html("- *a*\n# H\n- b"),
        to_html("-a"),
    ]


def probe_paragraphs():
    return [to_html("a\nb\n\nc  \n"), to_html(""), to_html("\n\n"), to_html("a & b\n  c"), to_html("  a")]
