"""What all pictures have in common: style, colours, marks, legends, files.

The style is a file, ``gibbs_dp/style.mplstyle``; ``plt.style.use("gibbs_dp.style")`` takes it for
pictures of one's own. Matplotlib's global settings are left as they are, and pyplot is not needed.
"""

from gibbs_dp.plotting.estimates import Points, draw_estimate
from gibbs_dp.plotting.inline import inline_svg
from gibbs_dp.plotting.labels import label_ends
from gibbs_dp.plotting.legends import explained, legend_below, legend_of_figure
from gibbs_dp.plotting.marks import mark_edge, mark_selected, note
from gibbs_dp.plotting.picture import Picture, literal, one_panel, panels
from gibbs_dp.plotting.save import FORMATS, save
from gibbs_dp.plotting.style import (
    BLACK,
    BLUE,
    COLORS,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    styled,
)
from gibbs_dp.plotting.ticks import tidy_logs

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
