"""The extension as a file: what a loader has to find room for."""

import struct
import sys

import pytest

from adjoint import _core

TLS = 7  # the type of the program header that describes thread-locals


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads ELF")
def test_thread_locals_fit_into_the_room_that_glibc_keeps() -> None:
    # They are read without a call (-ftls-model=initial-exec), so all of them have to lie in the
    # static block, of which a library that is loaded late may take less than 1,664 bytes. Scratch
    # memory belongs behind one pointer.
    with open(_core.__file__, "rb") as file:
        data = file.read(8192)
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", data, start + k * size) for k in range(count)]
    assert sum(header[6] for header in headers if header[0] == TLS) <= 1280
