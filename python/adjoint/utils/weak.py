"""Dictionaries whose keys are tensors, by identity, and go with them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any, Self

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref[Any]):
    """A weak reference that equals those to the same object: its ``==`` is not asked."""

    __slots__ = ("_id",)
    _id: int

    def __new__(cls, key: Any, callback: Any = None) -> Self:
        """A reference to the key; the function is called when it is gone."""
        made = super().__new__(cls, key, callback)
        made._id = id(key)
        return made

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        if mine is not None and theirs is not None:
            return mine is theirs
        return self is other


class TensorWeakRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: Any) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        """Return the tensor, or None."""
        return self.ref()


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary whose keys are compared by identity, and whose entries go with their keys."""

    def __init__(self, dict: Any = None, ref_type: type[WeakIdRef] = WeakIdRef) -> None:
        self.data: dict[WeakIdRef, Any] = {}
        self.ref_type = ref_type
        gone = weakref.ref(self)

        def remove(reference: WeakIdRef) -> None:
            mine = gone()
            if mine is not None:
                mine.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def _key(self, key: Any) -> WeakIdRef:
        return self.ref_type(key)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self._key(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self._key(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self._key(key) in self.data
        except TypeError:
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return sum(reference() is not None for reference in list(self.data))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def copy(self) -> WeakIdKeyDictionary:
        """Another one with the same entries."""
        return type(self)(self)


WeakTensorKeyDictionary = WeakIdKeyDictionary
