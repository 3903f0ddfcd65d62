"""Charts as inline SVG: lines with a band for the standard error, bars, and means of groups. The page's CSS has the
colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, floor, isfinite, log10

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 34
#: More bars than this are drawn as means of several steps.
BARS = 80
#: Groups that are drawn, the height of one, and the room and the characters of its name.
GROUPS, GROUP_HEIGHT, NAME_WIDTH, NAME_CHARACTERS = 40, 24, 200, 16


@dataclass(frozen=True, slots=True)
class Line:
    """A curve: (step, value, standard error or None)."""

    name: str
    points: Sequence[tuple[float, float, float | None]]


@dataclass(frozen=True, slots=True)
class Stack:
    """One part of every bar."""

    name: str
    values: Sequence[float]


@dataclass(frozen=True, slots=True)
class Group:
    """A mean with its standard error; None where there is none."""

    name: str
    mean: float | None
    error: float | None


def lines(title: str, curves: Sequence[Line], x_name: str = "step") -> str:
    """An SVG with a legend; the empty string where there is nothing to draw."""
    drawn = [curve for curve in curves if curve.points]
    if not drawn:
        return ""
    points = [point for curve in drawn for point in curve.points]
    reach = [value + sign * (error or 0.0) for _, value, error in points for sign in (-1, 1)]
    frame = _Frame.around([point[0] for point in points], reach)
    body = [frame.axes(x_name)]
    for number, curve in enumerate(drawn):
        body.append(_band(frame, curve, number))
        path = " ".join(f"{frame.x(step):.1f},{frame.y(value):.1f}" for step, value, _ in curve.points)
        body.append(f'<polyline class="line c{number}" points="{path}"/>')
        body += [_dot(frame, curve.name, point, number) for point in curve.points[:: max(len(curve.points) // 60, 1)]]
    return _figure(title, body, [curve.name for curve in drawn])


def bars(title: str, steps: Sequence[float], parts: Sequence[Stack], unit: str = "") -> str:
    """Stacked bars, one a step; many steps are averaged."""
    if not steps or not any(value for part in parts for value in part.values):
        return ""
    size = ceil(len(steps) / BARS)
    places = [steps[start] for start in range(0, len(steps), size)]
    means = [[_mean(part.values[start : start + size]) for start in range(0, len(steps), size)] for part in parts]
    totals = [sum(column) for column in zip(*means, strict=True)]
    gap = min((right - left for left, right in pairwise(places)), default=1.0)
    frame = _Frame.around([places[0] - gap / 2, places[-1] + gap / 2], [0.0, *totals])
    width = max((frame.x(places[0] + gap) - frame.x(places[0])) * 0.8, 1.0)
    body = [frame.axes("step" if size == 1 else f"step (means of {size})")]
    for place, step in enumerate(places):
        below = 0.0
        for number, part in enumerate(parts):
            value = means[number][place]
            if value > 0:
                top, height = frame.y(below + value), frame.y(below) - frame.y(below + value)
                body.append(
                    f'<rect class="fill c{number}" x="{frame.x(step) - width / 2:.1f}" y="{top:.1f}" '
                    f'width="{width:.1f}" height="{height:.1f}">'
                    f"<title>step {step:g}: {escape(part.name)} {value:.3g}{unit}</title></rect>"
                )
            below += value
    return _figure(title, body, [part.name for part in parts])


def histogram(title: str, values: Sequence[float], x_name: str, bins: int = 20) -> str:
    """How many of the finite `values` lie where; the empty string where there are none."""
    finite = [value for value in values if isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    bins = bins if high > low else 1
    counts = [0] * bins
    for value in finite:
        counts[min(int(_share(value, low, high) * bins), bins - 1)] += 1
    frame = _Frame.around([0.0, float(bins)], [0.0, *map(float, counts)])
    body = [frame.axes(x_name, counts=True)]
    for place, count in enumerate(counts):
        left, top = frame.x(place), frame.y(count)
        since, until = (low * (1 - share / bins) + high * (share / bins) for share in (place, place + 1))
        body.append(
            f'<rect class="fill c0" x="{left + 1:.1f}" y="{top:.1f}" width="{frame.x(place + 1) - left - 2:.1f}" '
            f'height="{frame.y(0) - top:.1f}"><title>{since:.4g} to {until:.4g}: {count}</title></rect>'
        )
    ends = {"start": (LEFT, low), "end": (WIDTH - RIGHT, high)} if bins > 1 else {"middle": (frame.x(0.5), low)}
    for anchor, (x, value) in ends.items():
        body.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="{anchor}">{value:.4g}</text>')
    return _figure(title, body, ["episodes"])


def means(title: str, groups: Sequence[Group], x_name: str) -> str:
    """A bar for each of the first groups, with its standard error; the empty string where there is nothing to draw."""
    reach = [0.0]
    for group in groups[:GROUPS]:
        if group.mean is not None:
            reach += [group.mean, group.mean - (group.error or 0.0), group.mean + (group.error or 0.0)]
    if len(reach) == 1 or not isfinite(2 * (max(reach) - min(reach))):
        return ""
    height = TOP + BOTTOM + GROUP_HEIGHT * len(groups[:GROUPS])
    across = _Across.around(reach)
    more = f" (the first {GROUPS} of {len(groups)} groups)" if len(groups) > GROUPS else ""
    body = [across.axis(x_name + more, height)]
    body += [_group(across, group, TOP + GROUP_HEIGHT * place) for place, group in enumerate(groups[:GROUPS])]
    return _figure(title, body, ["mean ± its standard error"], height)


def _group(across: _Across, group: Group, top: float) -> str:
    name = group.name if len(group.name) <= NAME_CHARACTERS else f"{group.name[: NAME_CHARACTERS - 1]}…"
    middle = top + GROUP_HEIGHT / 2
    said = f'<text x="{NAME_WIDTH - 8}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>'
    if group.mean is None:
        return f'{said}<text x="{NAME_WIDTH + 6}" y="{middle + 4}">masked</text>'
    left, right = sorted((across.x(0.0), across.x(group.mean)))
    error = "" if group.error is None else f" ± {group.error:.2g}"
    said += (
        f'<rect class="fill c0" x="{left:.1f}" y="{top + 4}" width="{max(right - left, 1.0):.1f}" '
        f'height="{GROUP_HEIGHT - 8}"><title>{escape(group.name)}: {group.mean:.4g}{error}</title></rect>'
    )
    if group.error:
        ends = [across.x(group.mean + sign * group.error) for sign in (-1, 1)]
        path = f"M{ends[0]:.1f} {middle}H{ends[1]:.1f}" + "".join(f"M{x:.1f} {middle - 4}v8" for x in ends)
        said += f'<path class="whisker" d="{path}"/>'
    return said


@dataclass(frozen=True, slots=True)
class _Across:
    """From values to places on a line from left to right, behind the names of groups."""

    low: float
    high: float
    step: float

    @classmethod
    def around(cls, values: Sequence[float]) -> _Across:
        low, high = min(values), max(values)
        step = _tick(low, high)
        return cls(floor(low / step) * step, ceil(high / step) * step or step, step)

    def x(self, value: float) -> float:
        return NAME_WIDTH + (WIDTH - NAME_WIDTH - 2 * RIGHT) * _share(value, self.low, self.high)

    def axis(self, name: str, height: float) -> str:
        bottom, parts = height - BOTTOM, []
        for number in range(round((self.high - self.low) / self.step) + 1):
            value = self.low + number * self.step
            x = self.x(value)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"/>')
            parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{round(value, 9):g}</text>')
        middle = (NAME_WIDTH + WIDTH) / 2 - RIGHT
        parts.append(f'<text class="axis" x="{middle}" y="{height - 3}" text-anchor="middle">{escape(name)}</text>')
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class _Frame:
    """From values to places in the picture."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    @classmethod
    def around(cls, xs: Sequence[float], ys: Sequence[float]) -> _Frame:
        low, high = min(ys), max(ys)
        step = _tick(low, high)
        return cls(min(xs), max(xs), floor(low / step) * step, ceil(high / step) * step or step)

    def x(self, value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * _share(value, self.x_low, self.x_high)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * _share(value, self.y_low, self.y_high)

    def axes(self, x_name: str, counts: bool = False) -> str:
        """`counts`: what is drawn are whole numbers, over values that its own text names."""
        parts = []
        step = max(_tick(self.y_low, self.y_high), 1.0 if counts else 0.0)
        for number in range(round((self.y_high - self.y_low) / step) + 1):
            value = self.y_low + number * step
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{round(value, 9):g}</text>')
        step = max(_tick(self.x_low, self.x_high), 1.0)
        value = ceil(self.x_low / step) * step
        while not counts and value <= self.x_high:
            parts.append(
                f'<text x="{self.x(value):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{value:g}</text>'
            )
            value += step
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(f'<text class="axis" x="{middle}" y="{HEIGHT - 3}" text-anchor="middle">{escape(x_name)}</text>')
        return "".join(parts)


def _band(frame: _Frame, curve: Line, number: int) -> str:
    wide = [(step, value, error) for step, value, error in curve.points if error is not None]
    if len(wide) < 2:
        return ""
    upper = [f"{frame.x(step):.1f},{frame.y(value + error):.1f}" for step, value, error in wide]
    lower = [f"{frame.x(step):.1f},{frame.y(value - error):.1f}" for step, value, error in reversed(wide)]
    return f'<polygon class="band c{number}" points="{" ".join(upper + lower)}"/>'


def _dot(frame: _Frame, name: str, point: tuple[float, float, float | None], number: int) -> str:
    step, value, error = point
    said = f"step {step:g}: {escape(name)} {value:.4g}" + ("" if error is None else f" ± {error:.2g}")
    place = f'cx="{frame.x(step):.1f}" cy="{frame.y(value):.1f}"'
    return f'<circle class="fill c{number}" {place} r="3"><title>{said}</title></circle>'


def _figure(title: str, body: Sequence[str], names: Sequence[str], height: float = HEIGHT) -> str:
    legend = "".join(
        f'<span class="key"><span class="swatch c{number}"></span>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">{"".join(body)}</svg>'
        f'<p class="legend">{legend}</p>'
    )


def _tick(low: float, high: float) -> float:
    """A round distance that gives four to eight marks."""
    span = high - low
    if not isfinite(span) or span <= 0:
        return 1.0
    power = 10.0 ** floor(log10(span / 4))
    return max((size * power for size in (1, 2, 5) if size * power <= span / 4), default=power)


def _share(value: float, low: float, high: float) -> float:
    """Halves: two ends may be further apart than a float reaches."""
    return (value / 2 - low / 2) / (high / 2 - low / 2) if high > low else 0.5


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
