(module (type $a (array (mut f64)))
  (func (param $a (ref $a)) (result f64) (local $i i32) (local $s f64)
    (block $out (loop $l
      (br_if $out (i32.ge_s (local.get $i) (array.len (local.get $a))))
      (local.set $s (f64.add (local.get $s) (array.get $a (local.get $a) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $l)))
    (local.get $s)))
