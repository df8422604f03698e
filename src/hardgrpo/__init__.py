"""The library. `hardgrpo.choose` is loaded at its first use."""


def __getattr__(name: str):
    if name != "choose":
        raise AttributeError(name)
    import importlib

    return importlib.import_module(".choice.choose", __name__).choose
