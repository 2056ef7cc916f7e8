"""The growth curves of `python -m benchmarks speed`, drawn for the documentation."""

from uncover.report.style import MARKERS, OKABE_ITO, WIDE, figure_style, new_figure, save_figure

NAMES = {"float32": "uncover, float32", "float64": "uncover, float64", "scikit-learn QDA": "scikit-learn QDA"}


def growth(table):
    """Rows (axis, size, time, time, …) as curves: axis to method to (sizes, times)."""
    methods = list(table["columns"])[2:]
    curves: dict = {}
    for axis, size, *times in table["rows"]:
        for method, value in zip(methods, times, strict=True):
            sizes, values = curves.setdefault(axis, {}).setdefault(method, ([], []))
            sizes.append(size)
            values.append(value)
    return curves


def _short(size):
    return f"{size // 1000}k" if size >= 1000 else str(size)


def draw(table, path):
    """Four panels, one for each size that grows, on one scale of time."""
    curves = growth(table)
    with figure_style():
        figure = new_figure(height=3.2, width=WIDE)
        panels = figure.subplots(1, len(curves), sharey=True)
        for panel, (axis, methods) in zip(panels, curves.items(), strict=True):
            for i, (method, (sizes, times)) in enumerate(methods.items()):
                label = NAMES.get(method, method)
                panel.loglog(sizes, times, color=OKABE_ITO[i], marker=MARKERS[i], markersize=4, label=label)
            panel.set_xlabel(axis)
            panel.minorticks_off()
            panel.set_xticks(sizes, [_short(size) for size in sizes])
            panel.yaxis.set_major_formatter("{x:,.0f}")
        panels[0].set_ylabel("ns per pixel and realisation")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        save_figure(figure, path)
