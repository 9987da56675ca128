;; A mutable field is read once before a loop that neither writes a field of its number nor calls.
(module
  (import "" "f" (func $f))
  (type $raw (array (mut i32)))
  (type $list (struct (field (mut i32)) (field $raw (mut (ref null $raw)))))
  (global $g (mut i32) (i32.const 0))
  (func (param $l (ref $list)) (param $n i32) (result i32)
    (local $sum i32)
    (loop $next
      (local.set $sum (i32.add (local.get $sum) (array.get $raw (struct.get $list $raw (local.get $l)) (local.get $n))))
      (local.set $sum (i32.add (local.get $sum) (global.get $g)))
      (struct.set $list 0 (local.get $l) (local.get $sum))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (param $l (ref $list)) (param $n i32) (result i32)
    (local $sum i32)
    (loop $next
      (local.set $sum (i32.add (local.get $sum) (struct.get $list 0 (local.get $l))))
      (call $f)
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum)))
