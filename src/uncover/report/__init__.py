"""Reports: summarise, plot, render. matplotlib and Jinja2 live here and nowhere else.

Everything on a page is in one HTML file. The parts are imported when they are used: `pip install
uncover[report]`.
"""
