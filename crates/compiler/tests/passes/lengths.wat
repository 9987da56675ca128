;; What a comparison says of a length: that of a constant, of another length, and none at all.
(module
  (type $array (array (mut i32)))

  (func (export "equal to a constant") (param $a (ref $array)) (result i32)
    (if (result i32) (i32.eq (array.len (local.get $a)) (i32.const 3))
      (then (i32.add (array.get $array (local.get $a) (i32.const 0)) (array.get $array (local.get $a) (i32.const 2))))
      (else (array.get $array (local.get $a) (i32.const 0)))))

  (func (export "at least a constant") (param $a (ref $array)) (result i32)
    (if (result i32) (i32.ge_s (array.len (local.get $a)) (i32.const 2))
      (then (i32.sub
        (i32.add (array.get $array (local.get $a) (i32.const 0)) (array.get $array (local.get $a) (i32.const 1)))
        (array.get $array (local.get $a) (i32.const 2))))
      (else (i32.const 0))))

  (func (export "not zero") (param $a (ref $array)) (result i32)
    (if (i32.eqz (array.len (local.get $a))) (then (return (i32.const 0))))
    (i32.add (array.get $array (local.get $a) (i32.const 0)) (array.get $array (local.get $a) (i32.const 1))))

  (func (export "equal to another") (param $a (ref $array)) (param $b (ref $array)) (result i32)
    (local $at i32) (local $sum i32)
    (if (i32.ne (array.len (local.get $a)) (array.len (local.get $b))) (then (return (i32.const -1))))
    (loop $each
      (if (i32.lt_s (local.get $at) (array.len (local.get $a))) (then
        (local.set $sum (i32.add (local.get $sum)
          (i32.mul (array.get $array (local.get $a) (local.get $at)) (array.get $array (local.get $b) (local.get $at)))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $each))))
    (local.get $sum))

  ;; Not below: the first element of a length that is at most two.
  (func (export "at most a constant") (param $a (ref $array)) (result i32)
    (if (result i32) (i32.le_u (array.len (local.get $a)) (i32.const 2))
      (then (array.get $array (local.get $a) (i32.const 0)))
      (else (array.get $array (local.get $a) (i32.const 2))))))
