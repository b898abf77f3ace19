# SPDX-License-Identifier: Apache-2.0
"""The stub files say what the module and the instruction table say."""

import pytest
from utils.stubs import PACKAGE, STUBS


@pytest.mark.parametrize("name", STUBS)
def test_stub_is_up_to_date(name: str, request: pytest.FixtureRequest) -> None:
    file = PACKAGE / name
    text = STUBS[name]()
    if request.config.getoption("--update-golden"):
        file.write_text(text)
    assert file.read_text() == text, f"mskpp/{name} is not up to date; accept the change with: python3 build.py golden"
