# SPDX-License-Identifier: Apache-2.0
"""Whether functions of the user take the names of a space as keywords."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mskpp.errors import InputError

SHOWN = 12  # parameters in a message


def name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def check_names(
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    configs: Iterable[Mapping[str, Any]],
    who: str,
) -> None:
    """InputError, with the function's parameters, where it does not take the names of the configurations as
    keywords beside the arguments that are given."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a built-in one does not tell
        return
    seen = set()
    for config in configs:
        names = tuple(config)
        if names in seen:
            continue
        seen.add(names)
        for name in names:
            check_name(signature, name, args, keywords, f"{who}: {name_of(function)}")
        try:
            signature.bind(*args, **{**keywords, **config})
        except TypeError as error:
            given = ", ".join([*keywords, *names])
            raise InputError(f"{who}: {name_of(function)}: {error}; the call and the space give {given}") from None


def check_name(
    signature: inspect.Signature, name: str, args: Sequence[Any], keywords: Mapping[str, Any], who: str
) -> None:
    parameters = signature.parameters
    kinds = [one.kind for one in parameters.values()]
    one = parameters.get(name)
    if one is not None and one.kind == one.POSITIONAL_OR_KEYWORD:
        given = name in keywords or list(parameters).index(name) < len(args)
    elif (one is not None and one.kind == one.KEYWORD_ONLY) or inspect.Parameter.VAR_KEYWORD in kinds:
        given = name in keywords
    else:
        told = ", ".join([*list(parameters)[:SHOWN], *(["..."] if len(parameters) > SHOWN else [])]) or "none"
        raise InputError(f"{who} takes no keyword {name!r}; its parameters are: {told}")
    if given:
        raise InputError(f"{who}: {name!r} is given in the call and in the space; leave it out of one")
