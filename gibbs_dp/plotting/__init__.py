"""What all pictures have in common: style, colours, marks, legends, files.

The style is a file, ``gibbs_dp/style.mplstyle``; ``plt.style.use("gibbs_dp.style")`` takes it for
pictures of one's own. Matplotlib's global settings are left as they are, and pyplot is not needed.
"""

from gibbs_dp.plotting.axes import explained, label_ends, legend_below, legend_of_figure, tidy_logs
from gibbs_dp.plotting.figure import (
    BLACK,
    BLUE,
    COLORS,
    FORMATS,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Picture,
    inline_svg,
    literal,
    one_panel,
    panels,
    save,
    styled,
)
from gibbs_dp.plotting.marks import Points, draw_estimate, mark_edge, mark_selected, note

__all__ = [
    "BLACK",
    "BLUE",
    "COLORS",
    "FORMATS",
    "GREEN",
    "ORANGE",
    "PURPLE",
    "SKY",
    "VERMILION",
    "Picture",
    "Points",
    "draw_estimate",
    "explained",
    "inline_svg",
    "label_ends",
    "legend_below",
    "legend_of_figure",
    "literal",
    "mark_edge",
    "mark_selected",
    "note",
    "one_panel",
    "panels",
    "save",
    "styled",
    "tidy_logs",
]
