"""Options of a command line, from keyword arguments."""


def format_options(**values: object) -> list[str]:
    """Each keyword as an option: `held_out=2` is --held-out 2, a list gives the option several
    values, and True gives an option without a value."""
    words = []
    for name, value in values.items():
        option_values = [] if value is True else value if isinstance(value, list) else [value]
        words += [f"--{name.replace('_', '-')}", *map(str, option_values)]
    return words
