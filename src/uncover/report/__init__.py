"""Reports: summarise, plot, render. matplotlib and Jinja2 live here and nowhere else.

Everything on a page is in one HTML file. Libraries are imported when something is drawn: `pip install
uncover[report]`.
"""

from uncover.report.page import Figure, Fragment, Headline, Note, Page, Section, Table, Text, render
from uncover.report.plots import comparison_figure
from uncover.report.style import figure_style, inline_svg, new_figure, save_figure
