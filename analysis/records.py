"""Records of arrays and numbers that kernels take as one pointer.

Numba passes a named tuple as all that is in it, seven arguments an array, to each function in turn.
For Python a record stays a named tuple. A kernel takes the address of a block of memory that holds
the addresses and shapes of the arrays, and the numbers, and reads what it uses. The block is
written once, as a named tuple never changes. Records may be fields of records: they stand in the
block of the outer one.
"""

from __future__ import annotations

import hashlib
import struct
from functools import cached_property, reduce
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, imputils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import make_array
from numba.np.numpy_support import as_dtype, from_dtype

T = TypeVar("T")

_WORD = 8
_INT64 = ir.IntType(64)
_DECLARED = {"int": types.int64, "float": types.float64, "bool": types.boolean}


class RecordType(types.Type):
    """The type of a record: the types of its fields, and where each stands, in bytes."""

    def __init__(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        self.places: dict[str, tuple[Any, int]] = {}
        self.size = 0
        for field, kind in fields:
            self.places[field] = kind, self.size
            self.size += kind.size if isinstance(kind, RecordType) else _WORD * _words(kind)
        digest = hashlib.sha256(repr((name, fields)).encode()).hexdigest()[:16]
        super().__init__(f"{name.rpartition('.')[2]}_{digest}")


class _Packed:
    """What `record` adds to a named tuple: its type to Numba and its block, both made once."""

    __slots__ = ()

    @cached_property
    def _numba_type_(self) -> RecordType:
        return _type_of(self)

    @cached_property
    def _block(self) -> Any:
        codes: list[str] = []
        values: list[Any] = []
        _write(self, self._numba_type_, codes, values)
        return np.frombuffer(struct.pack("=" + "".join(codes), *values), dtype=np.int64)

    @cached_property
    def _address(self) -> int:
        return int(self._block.ctypes.data)

    @cached_property
    def _handle(self) -> _Handle:
        return _Handle(self)

    def __getstate__(self) -> None:
        """Nothing but the fields: the block holds addresses."""


class _Handle:
    """A record in the form that Numba takes quickest: in a tuple it would look at every field."""

    __slots__ = ("_address", "_kept", "_numba_type_")

    def __init__(self, fields: Any) -> None:
        self._numba_type_ = fields._numba_type_
        self._address = fields._address
        self._kept = fields._block, tuple(fields)  # and not the record, which holds its handle


def by_address(fields: T) -> T:
    """A record for a kernel that is called often; it stands for the record to kernels alone."""
    return fields._handle  # type: ignore[attr-defined]


def record(fields: type[T]) -> type[T]:
    """The named tuple for kernels to take by its address; a decorator."""
    names = {"__module__": fields.__module__, "__qualname__": fields.__qualname__}
    names |= {"__doc__": fields.__doc__ or ""}
    return type(fields.__name__, (_Packed, fields), names)


def _words(kind: Any) -> int:
    """Of an array its address, its shape and its strides."""
    return 1 + 2 * int(kind.ndim) if isinstance(kind, types.Array) else 1


def _type_of(fields: Any) -> RecordType:
    cls = type(fields)
    declared = _declarations(cls)
    kinds = tuple(
        (name, _field_type(value, declared.get(name)))
        for name, value in zip(cls._fields, fields, strict=True)
    )
    return RecordType(f"{cls.__module__}.{cls.__qualname__}", kinds)


def _declarations(cls: type) -> dict[str, Any]:
    return {
        name: kind
        for base in cls.__mro__
        for name, kind in vars(base).get("__annotations__", {}).items()
    }


def _field_type(value: Any, declared: Any) -> Any:
    """The type of a number as its field declares it, whatever its value."""
    if isinstance(value, np.ndarray):
        layout = "C" if value.flags.c_contiguous else "A"
        return types.Array(
            from_dtype(value.dtype), value.ndim, layout, readonly=not value.flags.writeable
        )
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _type_of(value)
    kind = _DECLARED.get(getattr(declared, "__forward_arg__", getattr(declared, "__name__", "")))
    if kind is None:
        raise TypeError(f"A record holds arrays, numbers and records, not {value!r}.")
    return kind


def _write(fields: Any, record_type: RecordType, codes: list[str], values: list[Any]) -> None:
    for value, (kind, _) in zip(fields, record_type.places.values(), strict=True):
        if isinstance(kind, RecordType):
            _write(value, kind, codes, values)
        elif isinstance(kind, types.Array):
            codes.append(f"{_words(kind)}q")
            values += [value.__array_interface__["data"][0], *value.shape, *value.strides]
        elif kind is types.float64:
            codes.append("d")
            values.append(float(value))
        else:
            codes.append("q")
            values.append(int(value))


@typeof_impl.register(_Handle)
@typeof_impl.register(_Packed)
def _typeof(value: Any, _context: Any) -> RecordType:
    kind: RecordType = value._numba_type_
    return kind


@register_model(RecordType)
class _Address(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: RecordType) -> None:
        super().__init__(manager, kind, ir.IntType(8).as_pointer())


@unbox(RecordType)
def _unbox(_kind: RecordType, value: Any, c: Any) -> Any:
    number = c.pyapi.object_getattr_string(value, "_address")
    address = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(address, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@infer_getattr
class _Fields(AttributeTemplate):
    key = RecordType

    def generic_resolve(self, kind: RecordType, name: str) -> Any:
        return kind.places[name][0] if name in kind.places else None


@lower_getattr_generic(RecordType)
def _field(context: Any, builder: Any, kind: RecordType, address: Any, name: str) -> Any:
    field, place = kind.places[name]
    if isinstance(field, RecordType):
        return builder.gep(address, [ir.Constant(_INT64, place)], inbounds=True)
    if isinstance(field, types.Array):
        return _array(context, builder, field, address, place)
    if field is types.boolean:
        word = _load(builder, address, place, _INT64)
        return builder.trunc(word, ir.IntType(1))
    return imputils.impl_ret_untracked(
        context, builder, field, _load(builder, address, place, context.get_value_type(field))
    )


def _array(context: Any, builder: Any, kind: Any, address: Any, place: int) -> Any:
    words = [_load(builder, address, place + _WORD * n, _INT64) for n in range(1, _words(kind))]
    shape, strides = words[: kind.ndim], words[kind.ndim :]
    array = make_array(kind)(context, builder)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    array.data = _load(builder, address, place, context.get_value_type(types.CPointer(kind.dtype)))
    array.nitems = reduce(builder.mul, shape)
    array.itemsize = ir.Constant(_INT64, as_dtype(kind.dtype).itemsize)
    array.shape = cgutils.pack_array(builder, shape)
    array.strides = cgutils.pack_array(builder, strides)
    return array._getvalue()


def _load(builder: Any, address: Any, place: int, kind: Any) -> Any:
    """What stands in the block never changes: so it need not be read twice."""
    at = builder.gep(address, [ir.Constant(_INT64, place)], inbounds=True)
    loaded = builder.load(builder.bitcast(at, kind.as_pointer()))
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded
