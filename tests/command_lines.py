"""Command lines of tests: usual options, of which some are replaced."""


def replaced(*arguments, repeatable=("--probability",)):
    """The arguments without options that come again later: commands refuse what is given twice."""
    parts = []
    for argument in arguments:
        if not parts or str(argument).startswith("--"):
            parts.append([])
        parts[-1].append(argument)
    later, kept = set(), []
    for part in reversed(parts):
        if part[0] in repeatable or part[0] not in later:
            kept.append(part)
        if str(part[0]).startswith("--"):
            later.add(part[0])
    return [argument for part in reversed(kept) for argument in part]
