"""Blocks: headings, lists, paragraphs. A blank line ends a list and a paragraph."""

import re

from .inline import inline

HEADING = re.compile(r"(#{1,6})\s+(.*)")


def to_html(source):
    out, items, words = [], [], []

    def flush():
        if items:
            out.append("<ul>" + "".join(f"<li>{inline(item)}</li>" for item in items) + "</ul>")
            items.clear()
        if words:
            out.append(f"<p>{inline(' '.join(words))}</p>")
            words.clear()

    for line in source.splitlines():
        line = line.rstrip()
        heading = HEADING.fullmatch(line)
        if heading:
            flush()
            level = len(heading[1])
            out.append(f"<h{level}>{inline(heading[2])}</h{level}>")
        elif line.startswith("- "):
            if words:
                flush()
            items.append(line[2:].strip())
        elif not line:
            flush()
        elif items and line.startswith("  "):
            items[-1] += " " + line.strip()
        else:
            if items:
                flush()
            words.append(line.strip())
    flush()
    return "\n".join(out)
