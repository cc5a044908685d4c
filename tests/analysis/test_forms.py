"""All four forms are told apart by content, read, and written back."""

from __future__ import annotations

import dataclasses
import io

import jax
import jax.numpy as jnp
import pytest
from jaxlib.mlir import ir

from toast.analysis.errors import InvalidModule
from toast.analysis.forms import Form, decode, detect, encode, new_context, portable
from toast.analysis.load import load

SHAPES = (jax.ShapeDtypeStruct((8, 4), "float32"), {"w": jax.ShapeDtypeStruct((4, 2), "float32")})


def step(x: jax.Array, params: dict[str, jax.Array]) -> jax.Array:
    return jnp.tanh(x @ params["w"])


@pytest.fixture(scope="module")
def forms() -> dict[Form, bytes]:
    jitted = jax.jit(step)
    lowered = jitted.lower(*SHAPES)
    exported = jax.export.export(jitted, platforms=["cpu"])(*SHAPES)
    buffer = io.BytesIO()
    lowered.compiler_ir("stablehlo").operation.write_bytecode(buffer)
    return {
        Form.TEXT: lowered.as_text(debug_info=True).encode(),
        Form.BYTECODE: buffer.getvalue(),
        Form.PORTABLE: bytes(exported.mlir_module_serialized),
        Form.EXPORT: bytes(exported.serialize()),
    }


@pytest.mark.parametrize("form", list(Form))
def test_each_form_is_detected_and_gives_the_same_program(
    forms: dict[Form, bytes], form: Form
) -> None:
    assert detect(forms[form]) is form
    program = load(forms[form]).program
    assert [program.kind(op) for op in range(program.ops)].count("stablehlo.dot_general") == 1
    assert [program.shape(argument.value) for argument in program.arguments] == [(8, 4), (4, 2)]


@pytest.mark.parametrize("form", [Form.TEXT, Form.BYTECODE, Form.PORTABLE])
def test_what_is_written_is_read_again(forms: dict[Form, bytes], form: Form) -> None:
    loaded = decode(forms[form])
    again = encode(form, loaded.module)
    assert detect(again) is form
    assert str(decode(again).module) == str(loaded.module)


@pytest.mark.parametrize("form", [Form.TEXT, Form.BYTECODE])
def test_argument_names_are_pytree_paths(forms: dict[Form, bytes], form: Form) -> None:
    names = [argument.name for argument in load(forms[form]).program.arguments]
    assert names == ["x", "params['w']"]


@pytest.mark.parametrize("form", [Form.PORTABLE, Form.EXPORT])
def test_an_export_names_its_arguments_as_its_function_does(
    forms: dict[Form, bytes], form: Form
) -> None:
    names = [argument.name for argument in load(forms[form]).program.arguments]
    assert names == ["x", "params['w']"]


def test_an_export_without_names_has_those_of_its_tree() -> None:
    def unnamed(x: jax.Array, params: dict[str, jax.Array], *, scale: jax.Array) -> jax.Array:
        return step(x, params) * scale

    scale = jax.ShapeDtypeStruct((), "float32")
    exported = jax.export.export(jax.jit(unnamed), platforms=["cpu"])(*SHAPES, scale=scale)
    with new_context():
        module = ir.Module.parse(decode(bytes(exported.serialize())).module.operation.get_asm())
        bare = dataclasses.replace(exported, mlir_module_serialized=portable(module))
    program = load(bytes(bare.serialize())).program
    names = [argument.name for argument in program.arguments]
    assert names == ["arg0", "arg1['w']", "scale"]


def test_a_multi_platform_export_keeps_its_platform_argument() -> None:
    exported = jax.export.export(jax.jit(step), platforms=["cpu", "tpu"])(*SHAPES)
    program = load(bytes(exported.serialize())).program
    assert [argument.name for argument in program.arguments][1:] == ["x", "params['w']"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"hello world", "line 1, column 1"),
        (bytes(range(256)) * 4, "neither StableHLO text"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff", "neither StableHLO text"),
        (b"ML\xefR\x0dMLIR", "does not parse"),
        (b"ML\xefR\x0dStableHLO_v1.0.0\x00", "portable artifact"),
    ],
)
def test_what_is_no_module_is_refused_with_a_sentence(data: bytes, message: str) -> None:
    with pytest.raises(InvalidModule, match=message) as caught:
        decode(data)
    assert caught.value.hint


def test_a_syntax_error_names_its_place() -> None:
    text = (
        b"module {\n  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n    return %b\n  }\n}"
    )
    with pytest.raises(InvalidModule, match="line 3, column"):
        decode(text)


@pytest.mark.parametrize("form", [Form.BYTECODE, Form.PORTABLE, Form.EXPORT])
def test_a_truncated_module_is_refused(forms: dict[Form, bytes], form: Form) -> None:
    with pytest.raises(InvalidModule):
        decode(forms[form][: len(forms[form]) // 2])
