"""Options that have a few values."""


def check_choice(name, value, choices, otherwise=None):
    """Refuse a value that is not among the choices."""
    if value not in choices:
        names = ("None" if choice is None else f'"{choice}"' for choice in choices)
        wanted = " or ".join([*names, *([otherwise] if otherwise else [])])
        raise ValueError(f"{name} must be {wanted}; got {value!r}.")
