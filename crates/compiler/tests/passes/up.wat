(module (type $a (array (mut i16)))
  (func (param $a (ref $a)) (param $n i32) (result i32) (local $i i32) (local $s i32) (local $len i32)
    (local.set $len (array.len (local.get $a)))
    (if (i32.gt_s (local.get $len) (i32.const 0)) (then
     (loop $l
      (local.set $s (i32.add (local.get $s) (array.get_u $a (local.get $a) (local.get $i))))
      (br_if $l (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $len))))))
    (array.get_u $a (local.get $a) (local.get $i))))
