(module (type $a (array (mut i64))) (type $r (array (ref $a)))
  (func (param $m (ref $r)) (result i64) (local $i i32) (local $j i32) (local $s i64)
    (block $x (loop $o
      (br_if $x (i32.ge_s (local.get $i) (array.len (local.get $m))))
      (local.set $j (i32.const 0))
      (block $y (loop $n
        (br_if $y (i32.gt_s (local.get $j) (i32.sub (array.len (array.get $r (local.get $m) (local.get $i))) (i32.const 1))))
        (local.set $s (i64.add (local.get $s) (array.get $a (array.get $r (local.get $m) (local.get $i)) (local.get $j))))
        (local.set $j (i32.add (local.get $j) (i32.const 1)))
        (br $n)))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $o)))
    (local.get $s)))
