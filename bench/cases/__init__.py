"""All cases by name. Importing them imports no event loop package."""

from . import limit, networking, realistic, scale, scheduling  # noqa: F401  (they fill CASES)
from .registry import CASES

__all__ = ["CASES"]
