;; What a loop loads before and behind an inner loop, and writes nowhere, is loaded once before both, and so is what
;; follows from it.
(module
  (type $ints (array (mut i32)))
  (type $list (struct (field $storage (mut (ref null $ints)))))
  (func (export "turn") (param $list (ref $list)) (param $count i32) (local $at i32)
    (loop $next
      (local.set $at (array.get $ints (struct.get $list $storage (local.get $list)) (i32.const 0)))
      (if (local.get $at) (then
        (loop $inner
          (array.set $ints (struct.get $list $storage (local.get $list)) (local.get $at) (local.get $count))
          (br_if $inner (local.tee $at (i32.sub (local.get $at) (i32.const 1)))))))
      (array.set $ints (struct.get $list $storage (local.get $list)) (i32.const 0) (local.get $count))
      (br_if $next (local.tee $count (i32.sub (local.get $count) (i32.const 1)))))))
