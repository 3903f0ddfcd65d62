"""Patterns such as /users/{id:int}/files/{path:rest}; a fixed part wins over a placeholder, an int over a text."""

KINDS = ("int", "text", "rest")


class NoRoute(LookupError):
    pass


class Router:
    def __init__(self):
        self._routes = []

    def add(self, pattern, handler):
        """Raises ValueError for an unknown kind, a name used twice, or a `rest` that is not the last part."""
        parts, names = [], set()
        for part in _split(pattern):
            if part.startswith("{") and part.endswith("}"):
                name, _, kind = part[1:-1].partition(":")
                kind = kind or "text"
                if kind not in KINDS or name in names or (parts and parts[-1][0] == "rest"):
                    raise ValueError(f"bad pattern: {pattern}")
                names.add(name)
                parts.append((kind, name))
            elif parts and parts[-1][0] == "rest":
                raise ValueError(f"bad pattern: {pattern}")
            else:
                parts.append(("fixed", part))
        self._routes.append((parts, handler))

    def find(self, path):
        """(handler, values) of the best pattern; of equally good ones the first. Raises NoRoute."""
        wanted = _split(path)
        best = None
        for parts, handler in self._routes:
            values = _match(parts, wanted)
            rank = [("fixed", "int", "text", "rest").index(kind) for kind, _ in parts]
            if values is not None and (best is None or rank < best[0]):
                best = rank, handler, values
        if best is None:
            raise NoRoute(path)
        return best[1], best[2]


def _split(path):
    """Parts without empty ones, so that doubled and final slashes do not matter."""
    return [part for part in path.split("/") if part]


def _match(parts, wanted):
    values = {}
    for index, (kind, name) in enumerate(parts):
        if kind == "rest":
            values[name] = "/".join(wanted[index:])
            return values
        if index >= len(wanted):
            return None
        if kind == "fixed":
            if wanted[index] != name:
                return None
        elif kind == "int":
            if not wanted[index].isdigit():
                return None
            values[name] = int(wanted[index])
        else:
            values[name] = wanted[index]
    return values if len(parts) == len(wanted) else None
