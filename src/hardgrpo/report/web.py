"""The templates of web pages."""

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

import jinja2

TEMPLATES = Path(__file__).with_name("templates")


def checksum(text: str) -> str:
    """The source expression that allows an inline script or style in a Content-Security-Policy."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def template(name: str, folder: Path = TEMPLATES, **filters: Callable) -> jinja2.Template:
    loader = jinja2.FileSystemLoader(folder)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= filters
    return environment.get_template(name)
