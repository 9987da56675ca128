  ;; What every case of the bounds has in common: a ring whose values are replaced at random, so that there is always
  ;; something to collect. `build` and `touch` are the case's own; `tick` is called between two steps, and says whether
  ;; to go on.
  (import "lab" "tick" (func $tick (result i32)))
  (import "lab" "value" (func $external (result externref)))
  (import "lab" "view" (func $view (param anyref)))

  (type $value (array (mut i64)))
  (type $values (array (mut (ref null $value))))
  (type $externals (array (mut externref)))

  (global $ring (mut (ref $values)) (array.new_fixed $values 0))
  (global $state (mut i64) (i64.const 0x9E3779B97F4A7C15))

  ;; xorshift64 (Marsaglia, 2003), scaled to 0 .. $below.
  (func $any (param $below i32) (result i32)
    (local $x i64)
    (local.set $x (global.get $state))
    (local.set $x (i64.xor (local.get $x) (i64.shl (local.get $x) (i64.const 13))))
    (local.set $x (i64.xor (local.get $x) (i64.shr_u (local.get $x) (i64.const 7))))
    (local.set $x (i64.xor (local.get $x) (i64.shl (local.get $x) (i64.const 17))))
    (global.set $state (local.get $x))
    (i32.wrap_i64
      (i64.shr_u
        (i64.mul (i64.shr_u (local.get $x) (i64.const 32)) (i64.extend_i32_u (local.get $below)))
        (i64.const 32))))

  (func $new (result (ref $value)) (array.new $value (i64.const 1) (i32.const 14)))

  (func $steps
    (local $left i32)
    (loop $step
      (local.set $left (i32.const 20))
      (loop $more
        (array.set $values (global.get $ring) (call $any (array.len (global.get $ring))) (call $new))
        (local.set $left (i32.sub (local.get $left) (i32.const 1)))
        (br_if $more (local.get $left)))
      (call $touch)
      (br_if $step (call $tick))))

  (func (export "prepare") (param $ring i32)
    (global.set $ring (array.new_default $values (local.get $ring)))
    (call $build))
