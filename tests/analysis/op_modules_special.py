"""Small modules for control flow, tuples, tokens, collectives, random numbers and calls."""

from __future__ import annotations

from tests.analysis.op_modules import F, module

_CARRY = f"tensor<i32>, {F}"
_HANDLE = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
_GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
_TOKEN = "!stablehlo.token"
_SUM = (
    "({^bb0(%x: tensor<f32>, %y: tensor<f32>):\n    %s = stablehlo.add %x, %y : tensor<f32>\n"
    "    stablehlo.return %s : tensor<f32>})"
)


def _kept(body: str, made: str = F, arguments: str = f"%a: {F}") -> str:
    """A body whose `%r` is returned."""
    return module(arguments, made, f"{body}\n  return %r : {made}")


def _collective(name: str, attributes: str, made: str = F, region: str = "") -> str:
    return _kept(f'  %r = "stablehlo.{name}"(%a) {region} {{{attributes}}} : ({F}) -> {made}', made)


CONTROL = {
    "stablehlo.while": module(
        f"%a: {F}",
        F,
        "  %zero = stablehlo.constant dense<0> : tensor<i32>\n"
        f"  %r:2 = stablehlo.while(%i = %zero, %h = %a) : {_CARRY}\n"
        "   cond {\n    %n = stablehlo.constant dense<4> : tensor<i32>\n"
        "    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        "    stablehlo.return %c : tensor<i1>\n   } do {\n"
        "    %one = stablehlo.constant dense<1> : tensor<i32>\n"
        "    %j = stablehlo.add %i, %one : tensor<i32>\n"
        f"    %k = stablehlo.sine %h : {F}\n    stablehlo.return %j, %k : {_CARRY}\n   }}\n"
        f"  return %r#1 : {F}",
    ),
    "stablehlo.if": _kept(
        f'  %r = "stablehlo.if"(%p) ({{\n    %s = stablehlo.sine %a : {F}\n'
        f"    stablehlo.return %s : {F}\n  }}, {{\n    stablehlo.return %a : {F}\n  }}) : "
        f"(tensor<i1>) -> {F}",
        arguments=f"%a: {F}, %p: tensor<i1>",
    ),
    "stablehlo.case": _kept(
        f'  %r = "stablehlo.case"(%i) ({{\n    %s = stablehlo.sine %a : {F}\n'
        f"    stablehlo.return %s : {F}\n  }}, {{\n    stablehlo.return %a : {F}\n  }}) : "
        f"(tensor<i32>) -> {F}",
        arguments=f"%a: {F}, %i: tensor<i32>",
    ),
    "stablehlo.optimization_barrier": _kept(
        f"  %r, %q = stablehlo.optimization_barrier %a, %b : {F}, {F}",
        arguments=f"%a: {F}, %b: {F}",
    ),
    "stablehlo.composite": module(
        f"%a: {F}",
        F,
        f'  %r = stablehlo.composite "my.op" %a {{decomposition = @inside}} : ({F}) -> {F}\n'
        f"  return %r : {F}",
        f"func.func private @inside(%x: {F}) -> {F} {{\n"
        f"  %s = stablehlo.sine %x : {F}\n  return %s : {F}\n}}",
    ),
    "chlo.scan": _kept(
        f"  %zero = stablehlo.constant dense<0.0> : tensor<16xf32>\n"
        '  %r, %last = "chlo.scan"(%a, %zero) ({^bb0(%x: tensor<16xf32>, %s: tensor<16xf32>):\n'
        "    %n = stablehlo.add %x, %s : tensor<16xf32>\n"
        "    stablehlo.return %n, %n : tensor<16xf32>, tensor<16xf32>\n  }) "
        "{dimension = 0 : i64, operandSegmentSizes = array<i32: 1, 1>, "
        "resultSegmentSizes = array<i32: 1, 1>} : "
        f"({F}, tensor<16xf32>) -> ({F}, tensor<16xf32>)"
    ),
}
OPAQUE = {
    "stablehlo.custom_call": _kept(
        f"  %s = stablehlo.custom_call @my_kernel(%a) : ({F}) -> {F}\n"
        f"  %r = stablehlo.sine %s : {F}"
    ),
    "stablehlo.rng": _kept(
        "  %lo = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "  %shape = stablehlo.constant dense<[8, 16]> : tensor<2xi64>\n"
        "  %n = stablehlo.rng %lo, %lo, %shape, distribution = NORMAL : "
        f"(tensor<f32>, tensor<f32>, tensor<2xi64>) -> {F}\n  %r = stablehlo.add %a, %n : {F}"
    ),
    "stablehlo.rng_bit_generator": module(
        "%k: tensor<2xui64>",
        "tensor<8x16xui32>",
        "  %s, %r = stablehlo.rng_bit_generator %k, algorithm = THREE_FRY : "
        "(tensor<2xui64>) -> (tensor<2xui64>, tensor<8x16xui32>)\n"
        "  return %r : tensor<8x16xui32>",
    ),
    "stablehlo.get_dimension_size": _kept(
        f"  %n = stablehlo.get_dimension_size %a, dim = 0 : ({F}) -> tensor<i32>\n"
        "  %f = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>\n"
        f"  %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> {F}\n"
        f"  %r = stablehlo.multiply %a, %b : {F}"
    ),
    "stablehlo.tuple": _kept(
        f"  %t = stablehlo.tuple %a, %a : tuple<{F}, {F}>\n"
        f"  %r = stablehlo.get_tuple_element %t[0] : (tuple<{F}, {F}>) -> {F}"
    ),
    "stablehlo.replica_id": _kept(
        "  %i = stablehlo.replica_id : tensor<ui32>\n"
        "  %f = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32>\n"
        f"  %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> {F}\n"
        f"  %r = stablehlo.add %a, %b : {F}"
    ),
    "stablehlo.create_token": _kept(
        f"  %t = stablehlo.create_token : {_TOKEN}\n  %r = stablehlo.sine %a : {F}"
    ),
    "stablehlo.after_all": _kept(
        f"  %t = stablehlo.create_token : {_TOKEN}\n"
        f"  %u = stablehlo.after_all %t, %t : {_TOKEN}\n  %r = stablehlo.sine %a : {F}"
    ),
    "stablehlo.infeed": _kept(
        f"  %t = stablehlo.create_token : {_TOKEN}\n"
        f'  %i:2 = "stablehlo.infeed"(%t) {{infeed_config = ""}} : ({_TOKEN}) -> ({F}, {_TOKEN})\n'
        f"  %r = stablehlo.add %a, %i#0 : {F}"
    ),
    "stablehlo.outfeed": _kept(
        f"  %t = stablehlo.create_token : {_TOKEN}\n"
        f'  %o = "stablehlo.outfeed"(%a, %t) {{outfeed_config = ""}} : ({F}, {_TOKEN}) '
        f"-> {_TOKEN}\n  %r = stablehlo.sine %a : {F}"
    ),
    "stablehlo.send": _kept(
        f"  %t = stablehlo.create_token : {_TOKEN}\n"
        f'  %o = "stablehlo.send"(%a, %t) {{{_HANDLE}, is_host_transfer = false}} : '
        f"({F}, {_TOKEN}) -> {_TOKEN}\n  %r = stablehlo.sine %a : {F}"
    ),
    "stablehlo.recv": _kept(
        f"  %t = stablehlo.create_token : {_TOKEN}\n"
        f'  %i:2 = "stablehlo.recv"(%t) {{{_HANDLE}, is_host_transfer = false}} : '
        f"({_TOKEN}) -> ({F}, {_TOKEN})\n  %r = stablehlo.add %a, %i#0 : {F}"
    ),
}
OPAQUE["stablehlo.get_tuple_element"] = OPAQUE["stablehlo.tuple"]
OPAQUE["stablehlo.partition_id"] = OPAQUE["stablehlo.replica_id"].replace("replica_", "partition_")
COLLECTIVE = {
    "stablehlo.all_gather": _collective(
        "all_gather", f"all_gather_dim = 0 : i64, {_GROUPS}", "tensor<16x16xf32>"
    ),
    "stablehlo.all_reduce": _collective("all_reduce", _GROUPS, region=_SUM),
    "stablehlo.all_to_all": _collective(
        "all_to_all",
        "split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, " + _GROUPS,
        "tensor<16x8xf32>",
    ),
    "stablehlo.collective_broadcast": _collective("collective_broadcast", _GROUPS),
    "stablehlo.collective_permute": _collective(
        "collective_permute", "source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>"
    ),
    "stablehlo.cross-replica-sum": _collective("cross-replica-sum", _GROUPS),
    "stablehlo.reduce_scatter": _collective(
        "reduce_scatter",
        f"scatter_dimension = 0 : i64, {_GROUPS}",
        *("tensor<4x16xf32>", _SUM),
    ),
}
SPECIAL = CONTROL | OPAQUE | COLLECTIVE

MANUAL = 'sdy.mesh @mesh = <["x"=2]>\n' + module(
    f"%a: {F}",
    F,
    '  %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {}]>] '
    'out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%b: tensor<4x16xf32>) {\n'
    "    %s = stablehlo.sine %b : tensor<4x16xf32>\n    sdy.return %s : tensor<4x16xf32>\n"
    f"  }} : ({F}) -> {F}\n  return %r : {F}",
)
SHARDING_CALL = _kept(
    '  %s = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{devices=[2,1]<=[2]}"} : '
    f"({F}) -> {F}\n  %r = stablehlo.sine %s : {F}"
)
BOUNDED = _kept(
    "  %n = stablehlo.constant dense<4> : tensor<i32>\n"
    f"  %r = stablehlo.set_dimension_size %a, %n, dim = 0 : ({F}, tensor<i32>) -> "
    "tensor<?x16xf32, #stablehlo.bounds<8, ?>>",
    "tensor<?x16xf32, #stablehlo.bounds<8, ?>>",
)

_SHAPE = "%n: tensor<2xi32>"
_KERNEL = "%a: tensor<4x8x8xf32>, %b: tensor<3x8x16xf32>, %n: tensor<1x2xi32>"
SHAPED_AT_RUN_TIME = {
    "stablehlo.dynamic_broadcast_in_dim": _kept(
        f'  %r = "stablehlo.dynamic_broadcast_in_dim"(%a, %n) {{broadcast_dimensions = '
        f"array<i64: 0, 1>}} : ({F}, tensor<2xi32>) -> {F}",
        arguments=f"%a: {F}, {_SHAPE}",
    ),
    "stablehlo.dynamic_conv": _kept(
        '  %r = "stablehlo.dynamic_conv"(%a, %b, %n) {dimension_numbers = #stablehlo.conv<'
        "[b, 0, f]x[0, i, o]->[b, 0, f]>, batch_group_count = 1 : i64, "
        "feature_group_count = 1 : i64} : (tensor<4x8x8xf32>, tensor<3x8x16xf32>, "
        "tensor<1x2xi32>) -> tensor<4x8x16xf32>",
        *("tensor<4x8x16xf32>", _KERNEL),
    ),
    "stablehlo.dynamic_gather": _kept(
        '  %r = "stablehlo.dynamic_gather"(%a, %i, %n) {dimension_numbers = #stablehlo.gather<'
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        f"index_vector_dim = 1>}} : ({F}, tensor<4x1xi32>, tensor<2xi32>) -> tensor<4x16xf32>",
        *("tensor<4x16xf32>", f"%a: {F}, %i: tensor<4x1xi32>, {_SHAPE}"),
    ),
    "stablehlo.dynamic_iota": _kept(
        '  %k = "stablehlo.dynamic_iota"(%n) {iota_dimension = 0 : i64} : (tensor<2xi32>) '
        f"-> {F}\n"
        f"  %r = stablehlo.add %a, %k : {F}",
        arguments=f"%a: {F}, {_SHAPE}",
    ),
    "stablehlo.dynamic_pad": _kept(
        "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        f'  %r = "stablehlo.dynamic_pad"(%a, %z, %n, %n, %n) : ({F}, tensor<f32>, '
        f"tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> {F}",
        arguments=f"%a: {F}, {_SHAPE}",
    ),
    "stablehlo.dynamic_reshape": _kept(
        f'  %r = "stablehlo.dynamic_reshape"(%a, %n) : ({F}, tensor<2xi32>) -> tensor<16x8xf32>',
        *("tensor<16x8xf32>", f"%a: {F}, {_SHAPE}"),
    ),
    "stablehlo.real_dynamic_slice": _kept(
        f'  %r = "stablehlo.real_dynamic_slice"(%a, %n, %n, %n) : ({F}, tensor<2xi32>, '
        "tensor<2xi32>, tensor<2xi32>) -> tensor<4x8xf32>",
        *("tensor<4x8xf32>", f"%a: {F}, {_SHAPE}"),
    ),
    "stablehlo.set_dimension_size": BOUNDED,
}
ASYNC = _kept(
    f'  %s = "stablehlo.async_start"(%a) ({{^bb0(%h: {F}):\n'
    f'    %g = "stablehlo.all_reduce"(%h) {_SUM} {{{_GROUPS}}} : ({F}) -> {F}\n'
    f"    stablehlo.return %g : {F}\n  }}) : ({F}) -> !stablehlo.future<{F}>\n"
    f'  %r = "stablehlo.async_done"(%s) : (!stablehlo.future<{F}>) -> {F}'
)
SHAPED_AT_RUN_TIME |= {"stablehlo.async_start": ASYNC, "stablehlo.async_done": ASYNC}
