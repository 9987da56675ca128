;; A linked list of structs: build, reverse in place, sum.
(module
  (type $node (struct (field $value i64) (field $next (mut (ref null $node)))))

  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)

  ;; The numbers 1 to n, the largest first.
  (func $build (param $n i64) (result (ref null $node))
    (local $i i64) (local $list (ref null $node))
    (loop $more
      (local.set $i (i64.add (local.get $i) (i64.const 1)))
      (local.set $list (struct.new $node (local.get $i) (local.get $list)))
      (br_if $more (i64.lt_u (local.get $i) (local.get $n))))
    (local.get $list))

  (func $reverse (param $list (ref null $node)) (result (ref null $node))
    (local $done (ref null $node)) (local $rest (ref null $node))
    (block $end
      (loop $more
        (br_if $end (ref.is_null (local.get $list)))
        (local.set $rest (struct.get $node $next (local.get $list)))
        (struct.set $node $next (local.get $list) (local.get $done))
        (local.set $done (local.get $list))
        (local.set $list (local.get $rest))
        (br $more)))
    (local.get $done))

  (func $sum (param $list (ref null $node)) (result i64)
    (local $sum i64)
    (block $end
      (loop $more
        (local.set $sum (i64.add (local.get $sum)
          (struct.get $node $value (br_on_null $end (local.get $list)))))
        (local.set $list (struct.get $node $next (local.get $list)))
        (br $more)))
    (local.get $sum))

  (func (export "_start")
    (local $round i32) (local $list (ref null $node))
    (loop $more
      (local.set $list (call $reverse (call $build (i64.const 100000))))
      (local.set $round (i32.add (local.get $round) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $round) (i32.const 100))))
    ;; The head after the reversal, then the sum.
    (call $print (struct.get $node $value (local.get $list)))
    (call $print (call $sum (local.get $list))))

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
