;; Counts the points of a square of the plane that have not escaped after 200 steps, and all steps. Linear memory only.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)

  ;; The steps until a point leaves the circle of radius 2, at most 200.
  (func $escape (param $cx f64) (param $cy f64) (result i32)
    (local $x f64) (local $y f64) (local $xx f64) (local $yy f64) (local $n i32)
    (block $out
      (loop $step
        (br_if $out (i32.ge_u (local.get $n) (i32.const 200)))
        (local.set $xx (f64.mul (local.get $x) (local.get $x)))
        (local.set $yy (f64.mul (local.get $y) (local.get $y)))
        (br_if $out (f64.gt (f64.add (local.get $xx) (local.get $yy)) (f64.const 4)))
        (local.set $y (f64.add (f64.mul (f64.mul (f64.const 2) (local.get $x)) (local.get $y)) (local.get $cy)))
        (local.set $x (f64.add (f64.sub (local.get $xx) (local.get $yy)) (local.get $cx)))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br $step)))
    (local.get $n))

  (func (export "_start")
    (local $size i32) (local $row i32) (local $column i32) (local $n i32) (local $inside i64) (local $steps i64)
    (local.set $size (i32.const 2000))
    (loop $rows
      (local.set $column (i32.const 0))
      (loop $columns
        (local.set $n (call $escape
          (f64.sub (f64.div (f64.mul (f64.const 3) (f64.convert_i32_u (local.get $column))) (f64.convert_i32_u (local.get $size))) (f64.const 2.25))
          (f64.sub (f64.div (f64.mul (f64.const 3) (f64.convert_i32_u (local.get $row))) (f64.convert_i32_u (local.get $size))) (f64.const 1.5))))
        (local.set $steps (i64.add (local.get $steps) (i64.extend_i32_u (local.get $n))))
        (if (i32.eq (local.get $n) (i32.const 200)) (then
          (local.set $inside (i64.add (local.get $inside) (i64.const 1)))))
        (local.set $column (i32.add (local.get $column) (i32.const 1)))
        (br_if $columns (i32.lt_u (local.get $column) (local.get $size))))
      (local.set $row (i32.add (local.get $row) (i32.const 1)))
      (br_if $rows (i32.lt_u (local.get $row) (local.get $size))))
    (call $print (local.get $inside))
    (call $print (local.get $steps)))

  ;; Prints a number and a newline. The digits are written backwards from address 64; the I/O vector is at address 0.
  (func $print (param $n i64)
    (local $at i32) (local $rest i64)
    (local.set $at (i32.const 64))
    (i32.store8 (local.get $at) (i32.const 10))
    (local.set $rest (select (i64.sub (i64.const 0) (local.get $n)) (local.get $n) (i64.lt_s (local.get $n) (i64.const 0))))
    (loop $digit
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at)
        (i32.add (i32.const 48) (i32.wrap_i64 (i64.rem_u (local.get $rest) (i64.const 10)))))
      (local.set $rest (i64.div_u (local.get $rest) (i64.const 10)))
      (br_if $digit (i64.ne (local.get $rest) (i64.const 0))))
    (if (i64.lt_s (local.get $n) (i64.const 0)) (then
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at) (i32.const 45))))
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (i32.sub (i32.const 65) (local.get $at)))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
)
