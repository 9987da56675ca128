;; Allocates arrays of eight integers, and after each of them writes one and the same older array. COUNT is filled in.
(module
  (type $ints (array (mut i32)))
  (global $fresh (mut (ref null $ints)) (ref.null $ints))
  (global $stale (mut (ref null $ints)) (ref.null $ints))

  (func (export "_start") (local $i i32) (local $j i32)
    (global.set $stale (array.new_default $ints (i32.const 8)))
    (loop $more
      (global.set $fresh (array.new_default $ints (i32.const 8)))
      (local.set $j (i32.const 0))
      (loop $fill
        (array.set $ints (global.get $stale) (local.get $j) (local.get $j))
        (local.set $j (i32.add (local.get $j) (i32.const 1)))
        (br_if $fill (i32.lt_u (local.get $j) (i32.const 8))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $more (i32.lt_u (local.get $i) (i32.const COUNT))))
    ;; The old array is as it was written and the last new one as it was allocated, or the run does not count.
    (local.set $i (i32.const 0))
    (loop $check
      (if (i32.ne (array.get $ints (global.get $stale) (local.get $i)) (local.get $i)) (then (unreachable)))
      (if (array.get $ints (global.get $fresh) (local.get $i)) (then (unreachable)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $check (i32.lt_u (local.get $i) (i32.const 8))))))
