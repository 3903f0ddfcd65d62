"""Lines of a given width."""


def wrap(text, width):
    """Lines of at most `width` signs, as full as can be; a longer word has a line of its own."""
    if width < 1:
        raise ValueError("a line holds at least one sign")
    lines = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def indent(text, prefix, first=None):
    """Put `prefix` before every line that is not blank, and `first` before the first one when it is given."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if line.strip():
            lines[index] = (first if first is not None and index == 0 else prefix) + line
    return "\n".join(lines)


def columns(words, width):
    """Words in as many equally wide columns as fit, filled row by row; a column is two wider than its widest word."""
    if not words:
        return []
    wide = max(len(word) for word in words) + 2
    count = max(1, (width + 2) // wide)
    rows = [words[start : start + count] for start in range(0, len(words), count)]
    return ["".join(word.ljust(wide) for word in row).rstrip() for row in rows]
