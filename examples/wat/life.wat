;; Conway's Game of Life on a torus of 64 by 64 cells, sixteen at a time by vector instructions.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  ;; Two boards of 66 rows, a byte for each cell: 16 bytes, of which the last is the row's last cell once more, 64
  ;; cells, and 16 bytes, of which the first is the first cell once more. Rows 0 and 65 are rows 64 and 1 once more.
  (memory (export "memory") 1)
  (global $now (mut i32) (i32.const 0))
  (global $next (mut i32) (i32.const 8192))
  (global $text i32 (i32.const 16384))

  (func $row (param $board i32) (param $y i32) (result i32)
    (i32.add (local.get $board) (i32.mul (local.get $y) (i32.const 96))))

  (func $set (param $x i32) (param $y i32)
    (i32.store8 offset=16 (i32.add (call $row (global.get $now) (local.get $y)) (local.get $x)) (i32.const 1)))

  ;; What lies beyond the edges is what lies at the opposite ones.
  (func $wrap (param $board i32) (local $y i32) (local $row i32)
    (local.set $y (i32.const 1))
    (loop $each
      (local.set $row (call $row (local.get $board) (local.get $y)))
      (i32.store8 offset=15 (local.get $row) (i32.load8_u offset=79 (local.get $row)))
      (i32.store8 offset=80 (local.get $row) (i32.load8_u offset=16 (local.get $row)))
      (br_if $each (i32.le_u (local.tee $y (i32.add (local.get $y) (i32.const 1))) (i32.const 64))))
    (memory.copy (local.get $board) (call $row (local.get $board) (i32.const 64)) (i32.const 96))
    (memory.copy (call $row (local.get $board) (i32.const 65)) (call $row (local.get $board) (i32.const 1)) (i32.const 96)))

  ;; The sixteen cells at an address, a generation later.
  (func $cells (param $at i32) (result v128) (local $sum v128)
    (local.set $sum
      (i8x16.add
        (i8x16.add
          (i8x16.add (v128.load (i32.sub (local.get $at) (i32.const 97))) (v128.load (i32.sub (local.get $at) (i32.const 96))))
          (i8x16.add (v128.load (i32.sub (local.get $at) (i32.const 95))) (v128.load (i32.sub (local.get $at) (i32.const 1)))))
        (i8x16.add
          (i8x16.add (v128.load offset=1 (local.get $at)) (v128.load offset=95 (local.get $at)))
          (i8x16.add (v128.load offset=96 (local.get $at)) (v128.load offset=97 (local.get $at))))))
    (v128.and
      (i8x16.splat (i32.const 1))
      (v128.or
        (i8x16.eq (local.get $sum) (i8x16.splat (i32.const 3)))
        (v128.and (i8x16.eq (local.get $sum) (i8x16.splat (i32.const 2))) (call $alive (local.get $at))))))

  ;; Ones where the sixteen cells at an address live.
  (func $alive (param $at i32) (result v128)
    (i8x16.ne (v128.load (local.get $at)) (i8x16.splat (i32.const 0))))

  (func $generation (local $y i32) (local $x i32) (local $from i32)
    (call $wrap (global.get $now))
    (local.set $y (i32.const 1))
    (loop $rows
      (local.set $x (i32.const 16))
      (loop $columns
        (v128.store
          (i32.add (call $row (global.get $next) (local.get $y)) (local.get $x))
          (call $cells (i32.add (call $row (global.get $now) (local.get $y)) (local.get $x))))
        (br_if $columns (i32.lt_u (local.tee $x (i32.add (local.get $x) (i32.const 16))) (i32.const 80))))
      (br_if $rows (i32.le_u (local.tee $y (i32.add (local.get $y) (i32.const 1))) (i32.const 64))))
    (local.set $from (global.get $now))
    (global.set $now (global.get $next))
    (global.set $next (local.get $from)))

  ;; Prints the board; returns how many cells live.
  (func $print (result i32) (local $y i32) (local $x i32) (local $at i32) (local $count i32) (local $alive v128)
    (local.set $y (i32.const 1))
    (local.set $at (global.get $text))
    (loop $rows
      (local.set $x (i32.const 16))
      (loop $columns
        (local.set $alive (call $alive (i32.add (call $row (global.get $now) (local.get $y)) (local.get $x))))
        (local.set $count (i32.add (local.get $count) (i32.popcnt (i8x16.bitmask (local.get $alive)))))
        (v128.store (local.get $at)
          (v128.bitselect (i8x16.splat (i32.const 35)) (i8x16.splat (i32.const 46)) (local.get $alive)))
        (local.set $at (i32.add (local.get $at) (i32.const 16)))
        (br_if $columns (i32.lt_u (local.tee $x (i32.add (local.get $x) (i32.const 16))) (i32.const 80))))
      (i32.store8 (local.get $at) (i32.const 10))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $rows (i32.le_u (local.tee $y (i32.add (local.get $y) (i32.const 1))) (i32.const 64))))
    (call $write (global.get $text) (i32.sub (local.get $at) (global.get $text)))
    (local.get $count))

  (func $write (param $at i32) (param $bytes i32)
    (i32.store (i32.const 32768) (local.get $at))
    (i32.store (i32.const 32772) (local.get $bytes))
    (drop (call $fd_write (i32.const 1) (i32.const 32768) (i32.const 1) (i32.const 32776))))

  ;; Prints a number below 10,000 and ends the line.
  (func $number (param $number i32) (local $at i32)
    (local.set $at (i32.const 33000))
    (i32.store8 (local.get $at) (i32.const 10))
    (loop $digits
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 (local.get $at) (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
      (br_if $digits (local.tee $number (i32.div_u (local.get $number) (i32.const 10)))))
    (call $write (local.get $at) (i32.sub (i32.const 33001) (local.get $at))))

  (func (export "_start") (local $generation i32)
    ;; The R-pentomino in the middle, and a glider that comes from a corner.
    (call $set (i32.const 32) (i32.const 31)) (call $set (i32.const 33) (i32.const 31))
    (call $set (i32.const 31) (i32.const 32)) (call $set (i32.const 32) (i32.const 32))
    (call $set (i32.const 32) (i32.const 33))
    (call $set (i32.const 1) (i32.const 1)) (call $set (i32.const 2) (i32.const 2))
    (call $set (i32.const 0) (i32.const 3)) (call $set (i32.const 1) (i32.const 3)) (call $set (i32.const 2) (i32.const 3))
    (loop $each
      (call $generation)
      (local.set $generation (i32.add (local.get $generation) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $generation) (i32.const 1000))))
    (call $number (call $print))))
