(module (type $a (array (mut i32))) (type $box (struct (field (ref $a))))
  (func (param $b (ref null $box)) (param $n i32) (local $i i32)
    (loop $l
      (array.set $a (struct.get $box 0 (local.get $b)) (local.get $i) (local.get $n))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $l (i32.lt_u (local.get $i) (local.get $n))))))
