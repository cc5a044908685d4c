"""Modules with calls: in loops and branches, of constants, of loops that count what is passed."""

from __future__ import annotations

_LOOPS = """
func.func public @main(%x: tensor<4xf32>, %m: tensor<i32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %five = stablehlo.constant dense<5> : tensor<i32>
  %k = func.call @seven() : () -> tensor<i32>
  %k2 = func.call @same(%k) : (tensor<i32>) -> tensor<i32>
  %a = func.call @loop(%x, %five) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  %b = func.call @loop(%a, %k2) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  %c = func.call @loop(%b, %m) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  %d = func.call @loop(%c, %five) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  %e = func.call @twice(%d, %k) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  return %a, %c, %e : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func private @seven() -> tensor<i32> {
  %k = stablehlo.constant dense<7> : tensor<i32>
  return %k : tensor<i32>
}
func.func private @same(%k: tensor<i32>) -> tensor<i32> {
  return %k : tensor<i32>
}
func.func private @at_most(%n: tensor<i32>, %i: tensor<i32>) -> tensor<i1> {
  %p = stablehlo.compare LE, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
  return %p : tensor<i1>
}
func.func private @next(%n: tensor<f32>, %i: tensor<i32>) -> (tensor<f32>, tensor<i32>) {
  %one = func.call @one() : () -> tensor<i32>
  %j = stablehlo.add %one, %i : tensor<i32>
  return %n, %j : tensor<f32>, tensor<i32>
}
func.func private @one() -> tensor<i32> {
  %k = stablehlo.constant dense<1> : tensor<i32>
  return %k : tensor<i32>
}
func.func private @twice(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %two = stablehlo.constant dense<2> : tensor<i32>
  %a = func.call @loop(%x, %n) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  %b = func.call @loop(%a, %two) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
func.func private @loop(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %r:3 = stablehlo.while(%i = %zero, %a = %x, %m = %n) : tensor<i32>, tensor<4xf32>, tensor<i32>
   cond {
    %p = func.call @at_most(LIMIT, %i) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %b = func.call @body(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %q:2 = func.call @next(%f, %i) : (tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
    stablehlo.return %q#1, %b, %m : tensor<i32>, tensor<4xf32>, tensor<i32>
  }
  return %r#1 : tensor<4xf32>
}
func.func private @body(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = stablehlo.sine %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
"""
LOOPS = _LOOPS.replace("LIMIT", "%m")
"""Loops whose counter, limit and step are all found through calls; the limit is carried."""

WITHIN = """
func.func public @main(%x: tensor<8x4xf32>) -> tensor<4xf32> {
  %a = func.call @most(%x) : (tensor<8x4xf32>) -> tensor<4xf32>
  %b = func.call @most(%x) : (tensor<8x4xf32>) -> tensor<4xf32>
  %c = stablehlo.add %a, %b : tensor<4xf32>
  return %c : tensor<4xf32>
}
func.func private @most(%x: tensor<8x4xf32>) -> tensor<4xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.reduce(%x init: %z) across dimensions = [0]
      : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    reducer(%a: tensor<f32>, %b: tensor<f32>)  {
      %1 = func.call @larger(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }
  return %0 : tensor<4xf32>
}
func.func private @larger(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %1 = func.call @largest(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @largest(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
  %1 = stablehlo.maximum %a, %b : tensor<f32>
  return %1 : tensor<f32>
}
"""
"""Calls in a region that is read as part of its op."""

SHARDINGS = """
sdy.mesh @mesh = <["data"=2, "model"=4]>
func.func @main(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>})
    -> tensor<8x4xf32> {
  %a = func.call @f(%x) {mhlo.sharding = "{replicated}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %b = func.call @g(%a) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = func.call @f(%b) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %c : tensor<8x4xf32>
}
func.func private @g(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = func.call @f(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %b = func.call @f(%a) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %b : tensor<8x4xf32>
}
func.func private @f(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>})
    -> (tensor<8x4xf32> {mhlo.sharding = "{replicated}"}) {
  %c = sdy.sharding_constraint %x <@mesh, [{"data"}, {"model"}]> : tensor<8x4xf32>
  %d = stablehlo.custom_call @Sharding(%c) {mhlo.sharding = "{manual}"}
    : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %z = stablehlo.sine %d {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"data"}, {}]>]>}
    : tensor<8x4xf32>
  return %z : tensor<8x4xf32>
}
"""
"""Shardings of a function that is called four times: one is kept, one not read, one dropped."""

MODULES = {
    "loops": LOOPS,
    "limit_from_outside": _LOOPS.replace("LIMIT", "%n"),
    "within_an_op": WITHIN,
    "shardings": SHARDINGS,
    "results": """
func.func public @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y:3 = func.call @outer(%x, %x) : (tensor<4xf32>, tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %z = func.call @inner(%y#1) : (tensor<4xf32>) -> tensor<4xf32>
  %w = stablehlo.add %y#0, %y#2 : tensor<4xf32>
  return %z, %w : tensor<4xf32>, tensor<4xf32>
}
func.func private @outer(%a: tensor<4xf32>, %unused: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %b = func.call @inner(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = func.call @inner(%b) : (tensor<4xf32>) -> tensor<4xf32>
  return %a, %c, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func private @inner(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = stablehlo.sine %a : tensor<4xf32>
  return %b : tensor<4xf32>
}
func.func private @never_called(%a: tensor<?xf32>) -> tensor<?xf32> {
  return %a : tensor<?xf32>
}
""",
    "branches": """
func.func public @main(%x: tensor<4xf32>, %p: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<4xf32>
  %r = "stablehlo.case"(%p) ({
     %a = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
     stablehlo.return %a : tensor<4xf32>
  }, {
     %a = func.call @f(%z) : (tensor<4xf32>) -> tensor<4xf32>
     %b = func.call @choose(%a, %p) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
     stablehlo.return %b : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  %s = func.call @choose(%r, %p) : (tensor<4xf32>, tensor<i32>) -> tensor<4xf32>
  return %r, %s : tensor<4xf32>, tensor<4xf32>
}
func.func private @choose(%x: tensor<4xf32>, %p: tensor<i32>) -> tensor<4xf32> {
  %r = "stablehlo.case"(%p) ({
     %a = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
     stablehlo.return %a : tensor<4xf32>
  }, {
     stablehlo.return %x : tensor<4xf32>
  }) : (tensor<i32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}
func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %b = stablehlo.reshape %a : (tensor<4xf32>) -> tensor<2x2xf32>
  %c = stablehlo.reshape %b : (tensor<2x2xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}
""",
    "composites": """
func.func public @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %a = stablehlo.composite "my.op" %x {decomposition = @op}
    : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %b = stablehlo.composite "my.op" %a {decomposition = @op}
    : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %b : tensor<8x4xf32>
}
func.func private @op(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = chlo.erf_inv %x : tensor<8x4xf32> -> tensor<8x4xf32>
  %1 = func.call @without_a_rule(%0) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
func.func private @without_a_rule(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.custom_call @nobody_knows(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
""",
    "endless": """
func.func public @main(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %a = func.call @loop(%x, %p) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
  %b = func.call @loop(%a, %p) : (tensor<4xf32>, tensor<i1>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}
func.func private @loop(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %r = stablehlo.while(%a = %x) : tensor<4xf32>
   cond {
    stablehlo.return %p : tensor<i1>
  } do {
    %b = stablehlo.sine %a : tensor<4xf32>
    stablehlo.return %b : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
""",
}
