"""SVG charts of rows: how many times better a loop is than the best of the others, and than each of them.

Plain SVG without scripts. The style follows the reader's colour scheme, and the background is painted, so the text is
readable wherever the image is shown.
"""

from html import escape
from math import log2
from statistics import median

LEFT, RIGHT, LABELS = 250, 660, 190
WIDTH = RIGHT + LABELS
TOP, ROW = 64, 22
# The ends of the logarithmic scale. A longer bar is cut; its label has the figure.
LOWEST, HIGHEST = 0.25, 8
GRID = (0.25, 0.5, 1, 2, 4, 8)
DOTS = ("#0072b2", "#e69f00", "#cc79a7", "#56b4e9", "#d55e00", "#009e73")

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328; }
  .title { font-size: 14px; font-weight: 600; }
  .back { fill: #ffffff; } .grid { stroke: #d1d9e0; } .one { stroke: #59636e; stroke-width: 1.5; }
  .ahead { fill: #1a7f37; } .level { fill: #818b98; } .behind { fill: #cf222e; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .back { fill: #0d1117; } .grid { stroke: #3d444d; } .one { stroke: #9198a1; }
    .ahead { fill: #3fb950; } .level { fill: #9198a1; } .behind { fill: #f85149; }
  }
"""


def at(ratio):
    """The horizontal position of a ratio."""
    share = log2(min(HIGHEST, max(LOWEST, ratio)) / LOWEST) / log2(HIGHEST / LOWEST)
    return round(LEFT + share * (RIGHT - LEFT), 1)


def text(x, y, words, anchor="start", kind=None):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{kind}>{escape(words)}</text>'


def bar(row, name, y):
    """One row: its name, a bar from 1 to the ratio to the best other loop, and a dot for each other loop."""
    if row.failed:
        return [text(LEFT - 8, y + 15, name, "end"), text(at(1) + 6, y + 15, "failed", kind="behind")]
    ratio = median(row.ratios)
    start, end = sorted((at(1), at(ratio)))
    return [
        text(LEFT - 8, y + 15, name, "end"),
        f'<rect class="{row.word}" x="{start}" y="{y + 4}" width="{max(1, round(end - start, 1))}" height="14"/>',
        text(RIGHT + 8, y + 15, f"{ratio:.2f} × {row.best}, {row.word}"),
    ]


def dots(row, colours, y):
    return [
        f'<circle cx="{at(median(found))}" cy="{y + 11}" r="3.5" fill="{colours[loop]}" stroke="white" '
        f'stroke-width="0.8"><title>{escape(loop)}: {median(found):.2f}</title></circle>'
        for loop, found in row.peers.items()
    ]


def legend(colours):
    lines, x = [], LEFT
    for loop, colour in colours.items():
        lines += [f'<circle cx="{x + 4}" cy="36" r="3.5" fill="{colour}"/>', text(x + 12, 40, loop)]
        x += 78
    return lines


def chart(title, rows, peers, name):
    """The chart of `rows`, in their order; `name` returns the name of a row."""
    colours = dict(zip(peers, DOTS, strict=False))
    bottom = TOP + ROW * len(rows)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 10}" width="{WIDTH}" '
        f'height="{bottom + 10}" role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        '<rect class="back" width="100%" height="100%"/>',
        text(8, 20, title, kind="title"),
        *legend(colours),
    ]
    for figure in GRID:
        kind = "one" if figure == 1 else "grid"
        lines.append(f'<line class="{kind}" x1="{at(figure)}" y1="{TOP}" x2="{at(figure)}" y2="{bottom}"/>')
        lines.append(text(at(figure), TOP - 6, f"{figure:g}", "middle"))
    for number, row in enumerate(rows):
        y = TOP + ROW * number
        lines += bar(row, name(row), y) + dots(row, colours, y)
    return "\n".join([*lines, "</svg>"]) + "\n"
