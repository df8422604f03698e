"""Wheels that tests write."""

import zipfile
from pathlib import Path


def write_wheel(folder: Path, package: str, version: str, files: dict[str, str | bytes]) -> Path:
    """Write a wheel with these files, {path: content}."""
    folder.mkdir(exist_ok=True)
    release = f"{package.replace('-', '_')}-{version}"
    information = {
        "METADATA": f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    files = files | {f"{release}.dist-info/{name}": text for name, text in information.items()}
    path = folder / f"{release}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return path
