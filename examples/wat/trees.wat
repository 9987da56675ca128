;; Binary trees: many short-lived ones beside one that lives through it all. Prints the number of nodes seen.
(module
  (type $tree (struct (field $left (ref null $tree)) (field $right (ref null $tree))))

  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)

  (func $build (param $depth i32) (result (ref $tree))
    (if (result (ref $tree)) (i32.eqz (local.get $depth))
      (then (struct.new_default $tree))
      (else
        (struct.new $tree
          (call $build (i32.sub (local.get $depth) (i32.const 1)))
          (call $build (i32.sub (local.get $depth) (i32.const 1)))))))

  (func $count (param $tree (ref null $tree)) (result i64)
    (block $leaf
      (return
        (i64.add
          (i64.add (i64.const 1) (call $count (struct.get $tree $left (br_on_null $leaf (local.get $tree)))))
          (call $count (struct.get $tree $right (local.get $tree))))))
    (i64.const 0))

  ;; As many trees as fit into 2^20 nodes or so.
  (func $round (param $depth i32)
    (local $left i32) (local $nodes i64)
    (local.set $left (i32.shl (i32.const 1) (i32.sub (i32.const 20) (local.get $depth))))
    (loop $more
      (local.set $nodes (i64.add (local.get $nodes) (call $count (call $build (local.get $depth)))))
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br_if $more (local.get $left)))
    (call $print (local.get $nodes)))

  (func (export "_start")
    (local $depth i32) (local $long_lived (ref $tree))
    (local.set $long_lived (call $build (i32.const 16)))
    (local.set $depth (i32.const 4))
    (loop $more
      (call $round (local.get $depth))
      (local.set $depth (i32.add (local.get $depth) (i32.const 2)))
      (br_if $more (i32.le_u (local.get $depth) (i32.const 16))))
    (call $print (call $count (local.get $long_lived))))

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
