"""Draws lines over a few points as SVG, so that scaling is seen at a glance. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 420, 280
LEFT, RIGHT, TOP, BOTTOM = 52, 16, 34, 46
COLOURS = ("#2563a8", "#c2571a", "#3b8048", "#7a4b9e")
TICKS = 4


@dataclass(frozen=True, slots=True)
class Chart:
    """`lines` holds y by x for each name; all share one x axis, whose points are spaced evenly."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Mapping[int, float]]


def draw(charts: Sequence[Chart]) -> str:
    """One SVG of the charts side by side; readable on dark and light pages."""
    width = WIDTH * len(charts)
    size = f'viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="11">',
        f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
    ]
    for place, chart in enumerate(charts):
        parts += [f'<g transform="translate({place * WIDTH} 0)">', *_chart(chart), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _chart(chart: Chart) -> list[str]:
    points = sorted({x for line in chart.lines.values() for x in line})
    top = _nice(max((y for line in chart.lines.values() for y in line.values()), default=1.0))

    def at(x: int, y: float) -> tuple[float, float]:
        step = (WIDTH - LEFT - RIGHT) / max(1, len(points) - 1)
        return LEFT + points.index(x) * step, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / top

    found = [f'<text x="{LEFT}" y="18" font-weight="bold">{escape(chart.title)}</text>']
    for tick in range(TICKS + 1):
        value = top * tick / TICKS
        _, y = at(points[0], value) if points else (0.0, 0.0)
        found.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        found.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    for x in points:
        found.append(f'<text x="{at(x, 0)[0]:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{x}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    found.append(f'<text x="{middle:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(chart.x)}</text>')
    found.append(f'<text x="4" y="{TOP - 4}">{escape(chart.y)}</text>')
    for number, (name, line) in enumerate(chart.lines.items()):
        found += _line(name, [at(x, y) for x, y in sorted(line.items())], number)
    return found


def _line(name: str, points: Sequence[tuple[float, float]], number: int) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    label = f'<text x="{LEFT + 8}" y="{TOP + 12 + 14 * number}" fill="{colour}">{escape(name)}</text>'
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots, label]


def _nice(most: float) -> float:
    """A round number that is not below `most`."""
    if most <= 0:
        return 1.0
    scale = 1.0
    while scale * 10 <= most:
        scale *= 10
    while scale > most:
        scale /= 10
    return next(scale * factor for factor in (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10) if scale * factor >= most)
