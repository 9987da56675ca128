;; Multiplies two square matrices of f64 and prints the trace and the sum of the product. Whole numbers keep it exact.
;; Linear memory only: the matrices a, b and c follow one another from address 65536.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 240)
  (global $size i32 (i32.const 800))

  ;; The address of element (i, j) of matrix number $m.
  (func $at (param $m i32) (param $i i32) (param $j i32) (result i32)
    (i32.add (i32.const 65536)
      (i32.shl
        (i32.add
          (i32.mul (i32.add (i32.mul (local.get $m) (global.get $size)) (local.get $i)) (global.get $size))
          (local.get $j))
        (i32.const 3))))

  ;; Fills a matrix with small whole numbers between -50 and 50.
  (func $fill (param $m i32) (param $p i32) (param $q i32)
    (local $i i32) (local $j i32)
    (loop $rows
      (local.set $j (i32.const 0))
      (loop $columns
        (f64.store (call $at (local.get $m) (local.get $i) (local.get $j))
          (f64.convert_i32_s (i32.sub
            (i32.rem_u
              (i32.add (i32.mul (local.get $i) (local.get $p)) (i32.mul (local.get $j) (local.get $q)))
              (i32.const 101))
            (i32.const 50))))
        (local.set $j (i32.add (local.get $j) (i32.const 1)))
        (br_if $columns (i32.lt_u (local.get $j) (global.get $size))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $rows (i32.lt_u (local.get $i) (global.get $size)))))

  ;; Adds $factor times row $k of b to row $i of c. The innermost loop walks both rows by address.
  (func $add_row (param $i i32) (param $k i32) (param $factor f64)
    (local $from i32) (local $to i32) (local $end i32)
    (local.set $from (call $at (i32.const 1) (local.get $k) (i32.const 0)))
    (local.set $to (call $at (i32.const 2) (local.get $i) (i32.const 0)))
    (local.set $end (call $at (i32.const 2) (local.get $i) (global.get $size)))
    (loop $columns
      (f64.store (local.get $to)
        (f64.add (f64.load (local.get $to)) (f64.mul (local.get $factor) (f64.load (local.get $from)))))
      (local.set $from (i32.add (local.get $from) (i32.const 8)))
      (local.set $to (i32.add (local.get $to) (i32.const 8)))
      (br_if $columns (i32.lt_u (local.get $to) (local.get $end)))))

  (func (export "_start")
    (local $i i32) (local $k i32) (local $trace f64) (local $sum f64) (local $address i32)
    (call $fill (i32.const 0) (i32.const 31) (i32.const 17))
    (call $fill (i32.const 1) (i32.const 13) (i32.const 7))
    (loop $rows
      (local.set $k (i32.const 0))
      (loop $factors
        (call $add_row (local.get $i) (local.get $k) (f64.load (call $at (i32.const 0) (local.get $i) (local.get $k))))
        (local.set $k (i32.add (local.get $k) (i32.const 1)))
        (br_if $factors (i32.lt_u (local.get $k) (global.get $size))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $rows (i32.lt_u (local.get $i) (global.get $size))))
    (local.set $i (i32.const 0))
    (loop $diagonal
      (local.set $trace (f64.add (local.get $trace) (f64.load (call $at (i32.const 2) (local.get $i) (local.get $i)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $diagonal (i32.lt_u (local.get $i) (global.get $size))))
    (local.set $address (call $at (i32.const 2) (i32.const 0) (i32.const 0)))
    (loop $all
      (local.set $sum (f64.add (local.get $sum) (f64.load (local.get $address))))
      (local.set $address (i32.add (local.get $address) (i32.const 8)))
      (br_if $all (i32.lt_u (local.get $address) (call $at (i32.const 3) (i32.const 0) (i32.const 0)))))
    (call $print (i64.trunc_f64_s (local.get $trace)))
    (call $print (i64.trunc_f64_s (local.get $sum))))

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
