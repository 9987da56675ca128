;; The sign of an order, made of two comparisons, is a comparison itself: here and in strings whose lengths are equal.
(module
  (type $string (array (mut i16)))

  (func (export "less") (param $x i32) (param $y i32) (result i32)
    (i32.lt_s
      (i32.sub (i32.ge_s (local.get $x) (local.get $y)) (i32.le_s (local.get $x) (local.get $y)))
      (i32.const 0)))

  (func (export "greater, exchanged") (param $x i64) (param $y i64) (result i32)
    (i32.eq
      (i32.sub (i64.lt_u (local.get $x) (local.get $y)) (i64.lt_u (local.get $y) (local.get $x)))
      (i32.const -1)))

  (func (export "compare") (param $a (ref $string)) (param $b (ref $string)) (result i32)
    (local $order i32) (local $at i32) (local $x i32) (local $y i32)
    (local.set $x (array.len (local.get $a)))
    (local.set $y (array.len (local.get $b)))
    (local.set $order (i32.sub (i32.ge_s (local.get $x) (local.get $y)) (i32.le_s (local.get $x) (local.get $y))))
    (if (i32.ne (local.get $order) (i32.const 0)) (then (return (local.get $order))))
    (loop $each
      (if (i32.ge_s (local.get $at) (array.len (local.get $a))) (then (return (i32.const 0))))
      (local.set $x (array.get_u $string (local.get $a) (local.get $at)))
      (local.set $y (array.get_u $string (local.get $b) (local.get $at)))
      (local.set $order (i32.sub (i32.ge_s (local.get $x) (local.get $y)) (i32.le_s (local.get $x) (local.get $y))))
      (if (i32.ne (local.get $order) (i32.const 0)) (then (return (local.get $order))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $each))
    (unreachable)))
